-- end_attempt: the one place that decides what becomes of a job whose attempt ends, or that is cancelled while it waits.
-- decide says what shall be. If the job goes on: record_attempt, trim_attempts, go_on. If it ended: internal/finish.sql.
-- Takes: :job; :verb ('complete', 'fail', 'release', 'expire', 'revoke', or NULL for a waiting job that is cancelled); :delay_ms
--        (NULL: by policy, or the old due time if nothing is charged), :never (do not retry); :now.
-- Returns: decide: state, run_at, failures, charged, what to keep ('record', 'receipt', 'nothing'), step, attempt.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, attempt
-- Locks: the database for writing
-- Rules: S1, S2, F1, F2, F3, F4, F5, F7, R2, P1, P2, P8
-- DIFFERS: no roles and no hash function here: token_hash holds the token itself. It proves nothing any more, since the attempt has
--          ended, and whoever can read this file could read running tokens as well.

-- statement: decide
WITH facts AS (
    SELECT j.attempt, j.max_attempts, j.run_at, j.cancel_requested_at, s.*,
        j.failures, :verb IS 'fail' OR (:verb IS 'expire' AND (j.started_at IS NOT NULL OR j.unstarted_expiries >= 3)) AS charged
    FROM turno_job AS j, turno_queue AS s
    WHERE j.id = :job AND s.queue = (SELECT max(q.queue) FROM turno_queue AS q WHERE q.queue IN (j.queue, ''))
), due AS (
    -- Doubling stops where a double could overflow, long after every cap. Up to a quarter of the delay is taken off at random.
    SELECT *, CAST(min(retry_cap_ms, retry_base_ms * CAST(1 << min(failures, 50) AS REAL)) AS INTEGER) AS policy_ms FROM facts
), judged AS (
    SELECT *,
        CASE WHEN :delay_ms IS NOT NULL THEN :now + :delay_ms * 1000
             WHEN charged THEN :now + (policy_ms - abs(random() % (policy_ms / 4 + 1))) * 1000
             ELSE run_at END AS due_at,
        CASE WHEN :verb IS 'complete' THEN 'succeeded'
             WHEN :verb IS NULL OR :verb = 'revoke' OR cancel_requested_at IS NOT NULL THEN 'cancelled'
             WHEN attempt >= 1000000 OR :never OR (charged AND failures + 1 >= max_attempts) THEN 'dead' END AS outcome
    FROM due
)
SELECT coalesce(outcome, CASE WHEN due_at > :now AND (:delay_ms IS NOT NULL OR charged) THEN 'scheduled' ELSE 'ready' END),
    CASE WHEN outcome IS NULL THEN due_at END, min(failures + charged, max_attempts), charged,
    CASE WHEN CASE outcome WHEN 'succeeded' THEN keep_succeeded_ms WHEN 'dead' THEN keep_dead_ms ELSE keep_cancelled_ms END <> 0
         THEN 'record' WHEN receipts_ms > 0 THEN 'receipt' ELSE 'nothing' END,
    coalesce(aging_ms * 1000, 4503599627370496), attempt
FROM judged;

-- statement: record_attempt
INSERT OR REPLACE INTO turno_attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged,
    error, error_bytes, state, run_at)
SELECT id, attempt, queue, :verb, CASE WHEN :verb <> 'expire' THEN token END, worker, claimed_at, started_at, :now, :charged,
    :error, :error_bytes, :state, :run_at
FROM turno_job WHERE id = :job;

-- statement: trim_attempts
DELETE FROM turno_attempt WHERE job_id = :job AND attempt > 100 AND attempt <= :attempt - 100;

-- statement: go_on
UPDATE turno_job
SET state = :state, run_at = :run_at, rank = CASE WHEN :state = 'ready' THEN :run_at + priority * :step END, failures = :failures,
    unstarted_expiries = unstarted_expiries + (:verb = 'expire' AND NOT :charged),
    token = NULL, worker = NULL, claimed_at = NULL, started_at = NULL, lease_until = NULL, run_until = NULL
WHERE id = :job;
