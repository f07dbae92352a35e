-- prune: removes records whose time is over, with their attempts and keys, ledger rows older than 30 days, and records of fired
-- instants older than 7 days.
-- Takes: the most jobs to remove, the most ledger rows, and the most records of instants; call again while it removes any.
-- Returns: how many jobs, ledger rows and records of instants were removed.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: finished_job, attempt, enqueue_key, refused, schedule_run
-- Locks: rows of the history in order of their end; skips those that somebody holds
-- Rules: P7, P8, S7, K5, C10
CREATE OR ALTER PROCEDURE turno.prune @limit bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.own_check N'prune';
    SET IMPLICIT_TRANSACTIONS OFF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.batch_check @limit;
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @queue varbinary(400) = 0x, @jobs bigint = 0, @refused bigint = 0, @runs bigint = 0, @succeeded bigint,
        @cancelled bigint, @dead bigint;
    DECLARE @queues TABLE (queue varbinary(400) NOT NULL PRIMARY KEY);
    DECLARE @old TABLE (id bigint NOT NULL PRIMARY KEY);
    DECLARE @runs_over TABLE (schedule varbinary(400) NOT NULL, instant datetime2(6) NOT NULL, PRIMARY KEY (schedule, instant));
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
        INSERT INTO @runs_over (schedule, instant)
        SELECT TOP (@limit) r.schedule, r.instant
        FROM turno.schedule_run r WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(schedule_run_by_time), FORCESEEK)
        WHERE r.fired_at < DATEADD(day, -7, @now) ORDER BY r.fired_at;
        DELETE r FROM @runs_over o INNER LOOP JOIN turno.schedule_run r WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, FORCESEEK)
            ON r.schedule = o.schedule AND r.instant = o.instant OPTION (FORCE ORDER, MAXDOP 1);
        SET @runs = @@ROWCOUNT;
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @jobs AS jobs, @refused AS refused, @runs AS schedule_runs;
END;
