-- job_lock: locks an unfinished job, or says how it ended.
-- Takes: the job. Returns: its state if it is unfinished and locked now; else its outcome.
-- Raises: TU005 if there is no record of it
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the job's row
-- Rules: P1, P4
CREATE OR ALTER PROCEDURE turno.job_lock @job bigint, @state varchar(9) OUTPUT, @outcome varchar(9) OUTPUT
AS
BEGIN
    DECLARE @look int = 1, @message nvarchar(200) = CONCAT(N'there is no job ', COALESCE(CONVERT(nvarchar(20), @job), N'NULL'));
    SELECT @state = NULL, @outcome = NULL;
    -- Jobs move to the history, and by a retry back: whoever moves one is waited for, and the next look finds it.
    WHILE @look <= 3 AND @state IS NULL AND @outcome IS NULL
    BEGIN
        SELECT @state = j.state FROM turno.unfinished_job j WITH (UPDLOCK, ROWLOCK, FORCESEEK) WHERE j.id = @job;
        IF @state IS NULL
            SELECT @outcome = f.outcome FROM turno.finished_job f WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE f.id = @job;
        SET @look += 1;
    END;
    IF @state IS NULL AND @outcome IS NULL
        THROW 53105, @message, 1;
END;
