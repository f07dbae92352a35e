-- schedule_put: creates or changes a schedule. The same again moves nothing. A new expression or zone counts from now, and is due at
-- once: no engine knows cron, so that whoever ticks next asks a calendar. Nothing here can tell whether the expression is one.
-- Takes: its name; the cron expression and the IANA name of its zone; queue, kind and payload of its jobs, whose {instant} becomes the
--        instant of the run; their priority, failure budget, time per attempt in ms and unique key, each of which may be NULL; what
--        becomes of missed instants (skip, latest, all), with all up to how many.
-- Returns: created, changed or unchanged.
-- Raises: TU001, TU002; 547, 2628 or 8152 beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule
-- Locks: the schedule's row, or the gap where it will be: a rare operation
-- Rules: K3, K7
CREATE OR ALTER PROCEDURE turno.schedule_put
    @name nvarchar(4000), @cron nvarchar(4000), @zone nvarchar(4000), @queue nvarchar(4000), @kind nvarchar(4000), @payload nvarchar(max),
    @priority bigint = 0, @max_attempts bigint = NULL, @max_run_ms bigint = NULL, @unique_key nvarchar(4000) = NULL,
    @missed nvarchar(20) = N'latest', @missed_limit bigint = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @now datetime2(6) = SYSUTCDATETIME(), @bad nvarchar(400), @answer varchar(9),
        @has_payload bit = IIF(@payload IS NULL, 0, 1), @level int, @times bit, @word varchar(20) = CONVERT(varchar(20), @missed),
        @id varbinary(400), @c varbinary(400), @z varbinary(400), @q varbinary(400), @k varbinary(400), @u varbinary(1024);
    IF @own = 0
        EXEC turno.join_check N'schedule_put';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        SET @bad = COALESCE(turno.bad_name(N'schedule', @name), turno.bad_name(N'cron', @cron), turno.bad_name(N'zone', @zone));
        SELECT @bad = COALESCE(@bad, c.bad)
        FROM turno.enqueue_check(@queue, @kind, @has_payload, @priority, NULL, @max_attempts, @max_run_ms, @unique_key, NULL, @now) c;
        IF @bad IS NOT NULL
            THROW 53101, @bad, 1;
        SELECT @id = CONVERT(varbinary(400), @name), @c = CONVERT(varbinary(400), @cron), @z = CONVERT(varbinary(400), @zone),
               @q = CONVERT(varbinary(400), @queue), @k = CONVERT(varbinary(400), @kind), @u = CONVERT(varbinary(1024), @unique_key),
               @level = COALESCE(@priority, 0), @answer = 'created';
        -- What is compared is one row each, so that NULL equals NULL.
        SELECT @times = IIF(s.cron = @c AND s.zone = @z, 1, 0), @answer = IIF(s.cron = @c AND s.zone = @z AND EXISTS (
               SELECT s.queue, s.kind, CONVERT(varbinary(max), s.payload), s.priority, s.max_attempts, s.max_run_ms, s.unique_key, s.missed,
                      s.missed_limit
               INTERSECT SELECT @q, @k, CONVERT(varbinary(max), @payload), @level, CONVERT(int, @max_attempts), @max_run_ms, @u, @word,
                      CONVERT(int, @missed_limit)), 'unchanged', 'changed')
        FROM turno.schedule s WITH (UPDLOCK, HOLDLOCK, ROWLOCK) WHERE s.name = @id;
        IF @answer = 'created'
            INSERT INTO turno.schedule (name, revision, cron, zone, queue, kind, payload, priority, max_attempts, max_run_ms, unique_key,
                missed, missed_limit, done_until, next_at, created_at, updated_at)
            VALUES (@id, 1, @c, @z, @q, @k, @payload, @level, @max_attempts, @max_run_ms, @u, @word, @missed_limit, @now, @now, @now, @now);
        IF @answer = 'changed'
            UPDATE turno.schedule WITH (ROWLOCK)
            SET revision = revision + 1, cron = @c, zone = @z, queue = @q, kind = @k, payload = @payload, priority = @level,
                max_attempts = @max_attempts, max_run_ms = @max_run_ms, unique_key = @u, missed = @word, missed_limit = @missed_limit,
                updated_at = @now, next_at = CASE WHEN @times = 1 THEN next_at WHEN done_until > @now THEN done_until ELSE @now END,
                done_until = IIF(@times = 1 OR done_until > @now, done_until, @now)
            WHERE name = @id;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @answer AS answer;
END;
