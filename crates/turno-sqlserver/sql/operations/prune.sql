-- prune: removes records whose time is over, with their attempts and keys, and ledger rows older than 30 days.
-- Takes: the most jobs to remove, and the most ledger rows; call again while it removes any.
-- Returns: how many jobs and ledger rows were removed.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: finished_job, attempt, enqueue_key, refused
-- Locks: rows of the history in order of their end; skips those that somebody holds
-- Rules: P7, P8, S7, C10
CREATE OR ALTER PROCEDURE turno.prune @limit bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.own_check N'prune';
    SET IMPLICIT_TRANSACTIONS OFF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.batch_check @limit;
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @queue varbinary(400) = 0x, @jobs bigint = 0, @refused bigint = 0, @succeeded bigint,
        @cancelled bigint, @dead bigint;
    DECLARE @queues TABLE (queue varbinary(400) NOT NULL PRIMARY KEY);
    DECLARE @old TABLE (id bigint NOT NULL PRIMARY KEY);
    BEGIN TRY
        BEGIN TRANSACTION;
        INSERT INTO @queues (queue) SELECT n.queue FROM turno.queue_names() n;
        SELECT @queue = MIN(queue) FROM @queues;
        WHILE @queue IS NOT NULL AND @jobs < @limit
        BEGIN
            SELECT @succeeded = IIF(q.keep_succeeded_ms = 0, q.receipts_ms, q.keep_succeeded_ms),
                   @cancelled = IIF(q.keep_cancelled_ms = 0, q.receipts_ms, q.keep_cancelled_ms),
                   @dead = IIF(q.keep_dead_ms = 0, q.receipts_ms, q.keep_dead_ms)
            FROM turno.queue_settings(@queue) q;
            EXEC turno.prune_outcome @queue, 'succeeded', @now, @succeeded, @limit, @jobs OUTPUT;
            EXEC turno.prune_outcome @queue, 'cancelled', @now, @cancelled, @limit, @jobs OUTPUT;
            EXEC turno.prune_outcome @queue, 'dead', @now, @dead, @limit, @jobs OUTPUT;
            SELECT @queue = MIN(queue) FROM @queues WHERE queue > @queue;
        END;
        INSERT INTO @old (id)
        SELECT TOP (@limit) r.id FROM turno.refused_result r WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(refused_by_time), FORCESEEK)
        WHERE r.last_at < DATEADD(day, -30, @now) ORDER BY r.last_at, r.id;
        DELETE r FROM @old o INNER LOOP JOIN turno.refused_result r WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) ON r.id = o.id
        WHERE r.last_at < DATEADD(day, -30, @now) OPTION (FORCE ORDER, MAXDOP 1);
        SET @refused = @@ROWCOUNT;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @jobs AS jobs, @refused AS refused;
END;
