-- complete_all: ends those attempts of a batch as succeeded whose proof is the current one, by one statement for each table.
-- Takes: the batch, now. Returns: the places of what was ended, as a JSON array.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, finished_job; enqueue_key and attempt if nothing is kept
-- Locks: job rows in id order
-- Rules: S1, O2, O5, P7, P8
CREATE OR ALTER PROCEDURE turno.complete_all @settles nvarchar(max), @now datetime2(6), @done nvarchar(max) OUTPUT
AS
BEGIN
    DECLARE @proofs TABLE (job bigint NOT NULL, place int NOT NULL, attempt bigint, token uniqueidentifier, result nvarchar(max),
        PRIMARY KEY (job, place));
    DECLARE @mine TABLE (job bigint NOT NULL PRIMARY KEY, place int NOT NULL);
    DECLARE @kept TABLE (job bigint NOT NULL PRIMARY KEY);
    DECLARE @gone nvarchar(max);
    INSERT INTO @proofs (job, place, attempt, token, result)
    SELECT r.job, r.place, r.attempt, r.token, r.detail FROM turno.settle_shape(@settles) r WHERE r.job IS NOT NULL;
    -- Looked up one by one in id order, whatever the tables' sizes were when this was compiled. TOP makes the order certain.
    INSERT INTO @mine (job, place)
    SELECT j.id, MIN(p.place)
    FROM (SELECT TOP (1000) o.job, o.place, o.attempt, o.token FROM @proofs o ORDER BY o.job, o.place) p
    INNER LOOP JOIN turno.unfinished_job j WITH (UPDLOCK, ROWLOCK, FORCESEEK) ON j.id = p.job AND j.attempt = p.attempt AND j.token = p.token
    GROUP BY j.id
    OPTION (FORCE ORDER, MAXDOP 1);
    INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts, max_run_ms,
        unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at, created_at, finished_at,
        traceparent)
    OUTPUT inserted.id INTO @kept (job)
    SELECT j.id, j.queue, j.kind, 'succeeded', IIF(q.keep_succeeded_ms <> 0, j.payload, NULL), IIF(q.keep_succeeded_ms <> 0, p.result, NULL),
           j.priority, j.attempt, j.failures, j.max_attempts, j.max_run_ms, j.unique_key, j.operation_id, 'complete',
           HASHBYTES('SHA2_256', CONVERT(binary(16), j.token)), 0, j.worker, j.claimed_at, j.started_at, j.run_at, j.first_due_at,
           j.created_at, @now, j.traceparent
    FROM @mine m
    INNER LOOP JOIN @proofs p ON p.job = m.job AND p.place = m.place
    INNER LOOP JOIN turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) ON j.id = m.job
    CROSS APPLY turno.queue_settings(j.queue) q
    WHERE q.keep_succeeded_ms <> 0 OR q.receipts_ms <> 0
    OPTION (FORCE ORDER, MAXDOP 1);
    DELETE j FROM @mine m INNER LOOP JOIN turno.unfinished_job j WITH (ROWLOCK, FORCESEEK) ON j.id = m.job OPTION (FORCE ORDER, MAXDOP 1);
    SET @gone = STUFF((SELECT N',' + CONVERT(nvarchar(20), m.job) FROM @mine m
                       WHERE NOT EXISTS (SELECT 1 FROM @kept k WHERE k.job = m.job) FOR XML PATH(N'')), 1, 1, N'[') + N']';
    IF @gone IS NOT NULL
        EXEC turno.forget_rows @gone;
    SET @done = COALESCE(STUFF((SELECT N',' + CONVERT(nvarchar(20), m.place) FROM @mine m FOR XML PATH(N'')), 1, 1, N'[') + N']', N'[]');
END;
