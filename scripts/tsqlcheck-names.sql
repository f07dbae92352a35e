-- What resolving names must not let pass: scripts/tsqlcheck looks for each of the three in the answer.
CREATE OR ALTER PROCEDURE turno.names_that_do_not_exist
AS
BEGIN
    SELECT j.no_such_column FROM turno.unfinished_job j;
    EXEC turno.batch_check @no_such_argument = 1;
    EXEC turno.nothing_of_this_name;
END;
