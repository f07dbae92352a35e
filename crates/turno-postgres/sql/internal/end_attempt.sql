-- end_attempt: the one place that decides what becomes of a job whose attempt ended without success.
-- Takes: the job's row, locked by the caller; the verb (NULL: a waiting job is cancelled); the error; the retry delay in ms (NULL:
--        by policy, or for release the old due time; -1: never); the proof's token hash (NULL: no proof was shown); now.
-- Returns: the job's state and due time afterwards.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, then finished_job or attempt
-- Locks: the job's row, already held
-- Rules: S1, S2, F1, F2, F3, F5, F7, R2, P1, P2
CREATE OR REPLACE FUNCTION turno.end_attempt(
    p_job turno.job, p_verb text, p_error text, p_error_bytes bigint, p_delay_ms bigint, p_token_hash bytea, p_now timestamptz,
    OUT state text, OUT run_at timestamptz)
LANGUAGE plpgsql
AS $$
DECLARE
    v_unstarted boolean := p_verb IS NOT DISTINCT FROM 'expire' AND p_job.started_at IS NULL AND p_job.unstarted_expiries < 3;
    v_charged   boolean := coalesce(p_verb, '') IN ('fail', 'expire') AND NOT v_unstarted;
    v_failures  integer := p_job.failures + v_charged::integer;
    v_queue     turno.queue := turno.settings(p_job.queue);
BEGIN
    IF p_verb IS NULL OR p_verb = 'revoke' OR p_job.cancel_requested_at IS NOT NULL THEN
        state := 'cancelled';
    ELSIF v_charged AND (p_delay_ms = -1 OR v_failures >= p_job.max_attempts) OR p_job.attempt >= 1000000 THEN
        state := 'dead';
    END IF;
    run_at := p_job.run_at;
    IF state IS NOT NULL THEN
        PERFORM turno.finish(p_job, state, p_verb, p_error, p_error_bytes, v_failures, v_charged, p_token_hash, p_now);
        run_at := NULL;
        RETURN;
    END IF;
    IF p_delay_ms IS NOT NULL THEN
        run_at := p_now + make_interval(secs => p_delay_ms / 1000.0);
    ELSIF v_charged THEN
        run_at := p_now + turno.retry_delay(v_failures, v_queue.retry_base_ms, v_queue.retry_cap_ms);
    END IF;
    state := CASE WHEN run_at <= p_now THEN 'ready' ELSE 'scheduled' END;
    UPDATE turno.job j
    SET state = end_attempt.state, run_at = end_attempt.run_at, failures = v_failures,
        rank = CASE WHEN end_attempt.state = 'ready' THEN turno.rank_of(end_attempt.run_at, j.priority, v_queue.aging_ms) END,
        unstarted_expiries = j.unstarted_expiries + v_unstarted::integer,
        token = NULL, worker = NULL, claimed_at = NULL, started_at = NULL, lease_until = NULL, run_until = NULL
    WHERE j.id = p_job.id;
    INSERT INTO turno.attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged, error,
        error_bytes, state, run_at)
    VALUES (p_job.id, p_job.attempt, p_job.queue, p_verb, p_token_hash, p_job.worker, p_job.claimed_at, p_job.started_at, p_now,
        v_charged, turno.cut_error(p_error), coalesce(p_error_bytes, octet_length(p_error)), state, run_at);
    -- The first and the last hundred attempts are kept.
    DELETE FROM turno.attempt a WHERE a.job_id = p_job.id AND a.attempt = p_job.attempt - 100 AND a.attempt > 100;
END $$;
