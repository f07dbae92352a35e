-- schedule_fire: makes instants of a schedule jobs and moves it on, if it is still what was seen. Many may ask for the same; one of them
-- does it, and nobody waits: who meets another's lock is told `already`.
-- Takes: its name and the revision that was seen; until when everything is dealt with by this, in UTC, at most now; the instants that
--        become jobs as a JSON array of at most 100 texts like "2030-01-31T06:00:00.000000", ascending, after done_until and at most until;
--        the first instant after until, NULL if there is none.
-- Returns: per instant that became a job its answer `done`, the instant, the job's id; one row without a job if there is none.
-- Raises: TU001 for instants that cannot be, or if the queue's settings refuse the job; TU002; 53107
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule, schedule_run, job
-- Locks: the schedule's row, skipped if somebody holds it; then the unique key
-- Rules: K1, K2, K5, K6, E5, E11
CREATE OR ALTER PROCEDURE turno.schedule_fire
    @name nvarchar(4000), @revision bigint, @until datetime2(6), @instants nvarchar(max), @next_at datetime2(6)
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @now datetime2(6) = SYSUTCDATETIME(), @id varbinary(8000) = CONVERT(varbinary(8000), @name),
        @done_until datetime2(6), @at datetime2(6), @job bigint, @last_at datetime2(6), @last_job bigint;
    DECLARE @wanted TABLE (at datetime2(6) NULL);
    DECLARE @fired TABLE (at datetime2(6) NOT NULL PRIMARY KEY, job bigint NOT NULL);
    IF @own = 0
        EXEC turno.join_check N'schedule_fire';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        SELECT @done_until = s.done_until
        FROM turno.schedule s WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(schedule_pkey), FORCESEEK)
        WHERE s.name = @id AND s.revision = @revision AND s.paused_at IS NULL;
        IF @done_until IS NOT NULL
        BEGIN
            INSERT INTO @wanted (at) SELECT TRY_CONVERT(datetime2(6), i.[value], 126) FROM OPENJSON(COALESCE(@instants, N'[]')) i;
            IF @until IS NULL OR @until > @now OR @until < @done_until OR @next_at <= @until OR (SELECT COUNT(*) FROM @wanted) > 100
               OR EXISTS (SELECT 1 FROM @wanted w WHERE w.at IS NULL OR w.at <= @done_until OR w.at > @until)
                THROW 53101, N'a schedule fires at most 100 instants, after done_until, and none ahead of the clock', 1;
            SELECT @at = MIN(at) FROM @wanted;
            WHILE @at IS NOT NULL
            BEGIN
                EXEC turno.schedule_run_add @id, @at, @now, @job OUTPUT;
                INSERT INTO @fired (at, job) SELECT @at, @job WHERE @job IS NOT NULL;
                SELECT @at = MIN(at) FROM @wanted WHERE at > @at;
            END;
            SELECT TOP (1) @last_at = f.at, @last_job = f.job FROM @fired f ORDER BY f.at DESC;
            UPDATE turno.schedule WITH (ROWLOCK)
            SET revision = revision + 1, done_until = @until, next_at = @next_at, last_at = COALESCE(@last_at, last_at),
                last_job = COALESCE(@last_job, last_job)
            WHERE name = @id;
        END;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT IIF(@done_until IS NULL, 'already', 'done') AS answer, f.at AS instant, f.job AS job_id
    FROM (SELECT 1 AS one) o LEFT JOIN @fired f ON 1 = 1
    ORDER BY f.at;
END;
