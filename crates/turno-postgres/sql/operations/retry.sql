-- retry: runs a dead job again: failures 0, due now, with the same id and operation id; its attempt goes on.
-- Takes: the job.
-- Returns: nothing.
-- Raises: TU005 if there is no such job; TU006 if it is not dead, its payload was not kept, or its unique key is taken
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job
-- Locks: the row of the history, then the unique key
-- Rules: P3, F7
CREATE OR REPLACE FUNCTION turno.retry(p_job bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
DECLARE
    v_now   timestamptz := clock_timestamp();
    v_dead  turno.finished_job;
    v_queue turno.queue;
    v_state text;
BEGIN
    SELECT f.* INTO v_dead FROM turno.finished_job f WHERE f.id = p_job FOR UPDATE;
    SELECT j.state INTO v_state FROM turno.job j WHERE j.id = p_job;
    v_state := coalesce(v_state, turno.ended_as(p_job));
    IF v_state <> 'dead' OR v_dead.payload IS NULL OR v_dead.attempt >= 1000000 THEN
        RAISE EXCEPTION 'job % cannot be retried: %', p_job, CASE WHEN v_state <> 'dead' THEN 'it is ' || v_state
            WHEN v_dead.payload IS NULL THEN 'its payload was not kept' ELSE 'it had its last attempt' END USING ERRCODE = 'TU006';
    END IF;
    v_queue := turno.settings(v_dead.queue);
    INSERT INTO turno.job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, attempt, max_attempts,
        max_run_ms, unique_key, operation_id, traceparent)
    VALUES (p_job, v_dead.queue, v_dead.kind, v_dead.payload, v_dead.priority, 'ready',
        turno.rank_of(v_now, v_dead.priority, v_queue.aging_ms), v_now, v_now, v_dead.created_at, v_dead.attempt, v_dead.max_attempts,
        v_dead.max_run_ms, v_dead.unique_key, v_dead.operation_id, v_dead.traceparent)
    ON CONFLICT (queue, unique_key) WHERE unique_key IS NOT NULL DO NOTHING;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % cannot be retried: job % has its unique key', p_job,
            (SELECT j.id FROM turno.job j WHERE j.queue = v_dead.queue AND j.unique_key = v_dead.unique_key) USING ERRCODE = 'TU006';
    END IF;
    DELETE FROM turno.finished_job f WHERE f.id = p_job;
    IF v_dead.verb IS NOT NULL THEN
        INSERT INTO turno.attempt (job_id, attempt, queue, verb, token_hash, worker, claimed_at, started_at, ended_at, charged,
            error, error_bytes, state, run_at)
        VALUES (p_job, v_dead.attempt, v_dead.queue, v_dead.verb, v_dead.token_hash, v_dead.worker, v_dead.claimed_at,
            v_dead.started_at, v_dead.finished_at, v_dead.charged, v_dead.error, v_dead.error_bytes, 'dead', v_now);
        DELETE FROM turno.attempt a WHERE a.job_id = p_job AND a.attempt = v_dead.attempt - 100 AND a.attempt > 100;
    END IF;
    PERFORM turno.ring(ARRAY[v_dead.queue]);
END $$;
