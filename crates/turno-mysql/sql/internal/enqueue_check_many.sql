-- enqueue_check_many: enqueue_check for all rows of a batch at once.
-- Takes: the batch, whether priorities are obeyed, now. Returns: nothing.
-- Raises: TU001 with the row's number
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: none
-- Rules: T2, E9, E11
CREATE PROCEDURE turno.enqueue_check_many(IN p_jobs LONGTEXT, IN p_prioritized BOOLEAN, IN p_now BIGINT)
BEGIN
    DECLARE v_bad VARCHAR(255);
    SELECT CONCAT('row ', t.place, ': ', t.bad) INTO v_bad
        FROM (SELECT r.place, CASE
                  WHEN r.queue IS NULL THEN 'queue is NULL'
                  WHEN NOT r.has_payload THEN 'payload is NULL'
                  WHEN r.run_at > 253402300799999000 THEN 'run_at is after the year 9999'
                  WHEN r.run_at > p_now + q.run_at_horizon_ms * 1000
                      THEN CONCAT('run_at is beyond the horizon of the queue, ', q.run_at_horizon_ms, ' ms')
                  WHEN r.max_attempts NOT BETWEEN 1 AND q.max_attempts_limit
                      THEN CONCAT('max_attempts ', r.max_attempts, ' is not in 1..', q.max_attempts_limit)
                  WHEN r.max_run_ms NOT BETWEEN 1 AND q.max_run_limit_ms
                      THEN CONCAT('max_run_ms ', r.max_run_ms, ' is not in 1..', q.max_run_limit_ms)
                  WHEN p_prioritized AND r.priority NOT BETWEEN -1000 AND 1000
                      THEN CONCAT('priority ', r.priority, ' is not in -1000..1000') END AS bad
              FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (
                  place FOR ORDINALITY, queue VARCHAR(255) CHARACTER SET utf8mb4 PATH '$.queue', run_at BIGINT PATH '$.run_at' ERROR ON ERROR,
                  priority BIGINT PATH '$.priority' ERROR ON ERROR, max_attempts BIGINT PATH '$.max_attempts' ERROR ON ERROR,
                  max_run_ms BIGINT PATH '$.max_run_ms' ERROR ON ERROR,
                  unique_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.unique_key' ERROR ON ERROR,
                  idempotency_key VARCHAR(1024) CHARACTER SET utf8mb4 PATH '$.idempotency_key' ERROR ON ERROR,
                  has_payload INT EXISTS PATH '$.payload')) r
              STRAIGHT_JOIN turno.queue q FORCE INDEX (PRIMARY) ON q.queue = (SELECT MAX(s.queue) FROM turno.queue s
                                                        WHERE s.queue IN (CAST(r.queue AS BINARY), ''))) t
        WHERE t.bad IS NOT NULL ORDER BY t.place LIMIT 1;
    IF v_bad IS NOT NULL THEN
        CALL turno.raise_error(31001, v_bad);
    END IF;
END
