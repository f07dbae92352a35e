-- retry_check: locks a dead job's record and says why it cannot run again, if it cannot.
-- Takes: the job. Returns: the reason, or NULL.
-- Raises: TU005 if there is no such job
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the row of the history
-- Rules: P3
CREATE OR ALTER PROCEDURE turno.retry_check @job bigint, @bad nvarchar(200) OUTPUT
AS
BEGIN
    DECLARE @look int = 1, @state varchar(9), @attempt bigint, @kept bit,
        @message nvarchar(200) = CONCAT(N'there is no job ', COALESCE(CONVERT(nvarchar(20), @job), N'NULL'));
    SET @bad = NULL;
    WHILE @look <= 3 AND @state IS NULL
    BEGIN
        SELECT @state = f.outcome, @attempt = f.attempt, @kept = IIF(f.payload IS NULL, 0, 1)
        FROM turno.finished_job f WITH (UPDLOCK, ROWLOCK, FORCESEEK) WHERE f.id = @job;
        IF @state IS NULL
            SELECT @state = j.state FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE j.id = @job;
        SET @look += 1;
    END;
    IF @state IS NULL
        THROW 53105, @message, 1;
    SET @bad = CASE WHEN @state <> 'dead' THEN CONCAT(N'it is ', @state) WHEN @kept = 0 THEN N'its payload was not kept'
        WHEN @attempt >= 1000000 THEN N'it had its last attempt' END;
END;
