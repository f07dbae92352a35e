-- complete_all: ends a batch of attempts as succeeded by one statement for each table, if every proof in it is the current one.
-- Takes: the batch, now. Returns: whether that was so; if not, the caller has to roll back what was done.
-- Raises: nothing
-- Transaction: joins one of our own, at READ COMMITTED: absent rows lock nothing there
-- Writes: job, unique_key, finished_job; enqueue_key and attempt if nothing is kept
-- Locks: job rows in the order of the request, then their unique keys
-- Rules: S1, O2, O5, P7, P8
-- DIFFERS: MySQL wants to hear that only job rows are locked, MariaDB does not know the words. Each reading of the batch costs as much
--          as a row of an index, so nothing is asked beforehand: the rows that the last statement removes are counted.
CREATE PROCEDURE turno.complete_all(IN p_settles LONGTEXT, IN p_now BIGINT, OUT p_done BOOLEAN)
BEGIN
    DECLARE v_count BIGINT DEFAULT JSON_LENGTH(p_settles);
    DECLARE v_kept, v_keys BIGINT DEFAULT 0;
    DECLARE v_keep, v_receipt BOOLEAN;
    DECLARE v_queue VARBINARY(200);
    -- A job twice in one batch, or one that is finished already: then not every proof is the current one.
    DECLARE EXIT HANDLER FOR 1062 SET p_done = FALSE;
    -- Most batches are of one queue, whose settings are read once; other queues are looked up row by row.
    SELECT j.queue, q.keep_succeeded_ms <> 0, q.receipts_ms <> 0 INTO v_queue, v_keep, v_receipt
    FROM turno.job j FORCE INDEX (PRIMARY) STRAIGHT_JOIN turno.queue q FORCE INDEX (PRIMARY) ON q.queue IN (j.queue, '')
    WHERE j.id = JSON_UNQUOTE(JSON_EXTRACT(p_settles, '$[0].job')) ORDER BY q.queue DESC LIMIT 1;
    INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts,
        max_run_ms, unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at,
        created_at, finished_at, traceparent)
    SELECT j.id, j.queue, j.kind, 'succeeded',
        IF(IF(j.queue = v_queue, v_keep, (SELECT q.keep_succeeded_ms <> 0 FROM turno.queue q WHERE q.queue IN (j.queue, '')
                                          ORDER BY q.queue DESC LIMIT 1)), j.payload, NULL),
        IF(IF(j.queue = v_queue, v_keep, (SELECT q.keep_succeeded_ms <> 0 FROM turno.queue q WHERE q.queue IN (j.queue, '')
                                          ORDER BY q.queue DESC LIMIT 1)), r.result, NULL),
        j.priority, j.attempt, j.failures, j.max_attempts, j.max_run_ms, j.unique_key, j.operation_id, 'complete',
        UNHEX(SHA2(j.token, 256)), FALSE, j.worker, j.claimed_at, j.started_at, j.run_at, j.first_due_at, j.created_at, p_now,
        j.traceparent
    FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (job BIGINT PATH '$.job', attempt BIGINT PATH '$.attempt', token CHAR(36) PATH '$.token',
                                               result LONGTEXT CHARACTER SET utf8mb4 PATH '$.result')) r
    STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = r.job AND j.attempt = r.attempt AND j.token = UNHEX(REPLACE(r.token, '-', ''))
    WHERE IF(j.queue = v_queue, v_keep OR v_receipt,
             (SELECT q.keep_succeeded_ms <> 0 OR q.receipts_ms <> 0 FROM turno.queue q WHERE q.queue IN (j.queue, '')
              ORDER BY q.queue DESC LIMIT 1))
    FOR UPDATE /*!80000 OF j */;
    SET v_kept = ROW_COUNT();
    SELECT COUNT(*) INTO v_keys FROM (SELECT 1 AS one FROM turno.unique_key LIMIT 1) k;
    IF v_keys > 0 THEN
        DELETE k FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (job BIGINT PATH '$.job')) r
        STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = r.job
        STRAIGHT_JOIN turno.unique_key k FORCE INDEX (PRIMARY) ON k.queue = j.queue AND k.key = j.unique_key AND k.job_id = j.id;
    END IF;
    DELETE j FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (job BIGINT PATH '$.job', attempt BIGINT PATH '$.attempt',
                                                        token CHAR(36) PATH '$.token')) r
    STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = r.job AND j.attempt = r.attempt AND j.token = UNHEX(REPLACE(r.token, '-', ''));
    SET p_done = ROW_COUNT() = v_count;
    IF p_done AND v_kept < v_count THEN
        DELETE a FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (job BIGINT PATH '$.job')) r
        STRAIGHT_JOIN turno.attempt a FORCE INDEX (PRIMARY) ON a.job_id = r.job
        WHERE NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = a.job_id);
        DELETE k FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (job BIGINT PATH '$.job')) r
        STRAIGHT_JOIN turno.enqueue_key k FORCE INDEX (enqueue_key_job) ON k.job_id = r.job
        WHERE NOT EXISTS (SELECT 1 FROM turno.finished_job f WHERE f.id = k.job_id);
    END IF;
END
