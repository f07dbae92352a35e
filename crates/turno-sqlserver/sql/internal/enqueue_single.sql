-- enqueue_single: inserts one job in the caller's transaction, or in one of its own.
-- Takes: the columns of the job. Returns: one row: the job's id, and whether this call created it.
-- Raises: TU001 beyond a limit, TU002; 53107
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E3, E4, E5, E9, E12
CREATE OR ALTER PROCEDURE turno.enqueue_single
    @queue nvarchar(max), @kind nvarchar(max), @payload nvarchar(max), @priority bigint, @run_at datetime2(6), @max_attempts bigint,
    @max_run_ms bigint, @unique_key nvarchar(max), @idempotency_key nvarchar(max), @traceparent nvarchar(max)
AS
BEGIN
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @own bit = IIF(@@TRANCOUNT = 0, 1, 0);
    DECLARE @bad nvarchar(400), @due_at datetime2(6), @state varchar(9), @rank bigint, @id bigint, @created bit;
    DECLARE @has_payload bit = IIF(@payload IS NULL, 0, 1), @queue_name varbinary(400), @kind_name varbinary(400),
        @unique varbinary(1024), @once varbinary(1024), @level int,
        @trace varchar(55) = turno.traceparent_kept(@traceparent);
    IF @own = 0
        EXEC turno.join_check N'enqueue';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        SELECT @bad = N'row 1: ' + c.bad, @due_at = c.due_at, @max_attempts = c.max_attempts, @max_run_ms = c.max_run_ms,
               @state = c.state, @rank = c.rank
        FROM turno.enqueue_check(@queue, @kind, @has_payload, @priority, @run_at, @max_attempts, @max_run_ms, @unique_key,
            @idempotency_key, @now) c;
        IF @bad IS NOT NULL
            THROW 53101, @bad, 1;
        SELECT @queue_name = CONVERT(varbinary(400), @queue), @kind_name = CONVERT(varbinary(400), @kind),
               @unique = CONVERT(varbinary(1024), @unique_key), @once = CONVERT(varbinary(1024), @idempotency_key),
               @level = COALESCE(@priority, 0);
        EXEC turno.enqueue_row @queue_name, @kind_name, @payload, @level, @due_at, @max_attempts, @max_run_ms, @state, @rank, @unique,
            @once, @trace, @now, @id OUTPUT, @created OUTPUT;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @id AS id, @created AS created;
END;
