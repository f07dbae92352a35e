-- complete_rows: moves jobs whose proofs are current from the hot table to the history, as the queue's retention says. One statement
-- finds, locks and removes them: its plan is pinned to the job's key joined to the proofs by a hash, since a plan that was made while
-- the table was empty reads all of it later. Each row is copied as seldom as can be: most of a completion's time went into copies.
-- Takes: proofs as three arrays, none twice; results. Returns: the places of the proofs that were current, and the jobs of which nothing
--        was recorded.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: job, finished_job
-- Locks: job rows in id order
-- Rules: S1, O2, O5, P7, P8
CREATE OR REPLACE FUNCTION turno.complete_rows(
    p_jobs bigint[], p_attempts bigint[], p_tokens uuid[], p_results text[], OUT done bigint[], OUT unkept bigint[])
LANGUAGE plpgsql
SET enable_nestloop = off SET enable_mergejoin = off
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    -- A batch has one token, mostly.
    v_hash bytea := sha256(uuid_send(p_tokens[1]));
BEGIN
    WITH gone AS (
        DELETE FROM turno.job j
        USING unnest(p_jobs, p_attempts, p_tokens, p_results) WITH ORDINALITY AS p (job_id, attempt, token, result, place)
        WHERE j.id = ANY (p_jobs) AND j.id = p.job_id AND j.attempt = p.attempt AND j.token = p.token
        RETURNING j.id, j.queue, j.kind, j.payload, p.result, j.priority, j.attempt, j.failures, j.max_attempts, j.max_run_ms,
            j.unique_key, j.operation_id, j.token, j.worker, j.claimed_at, j.started_at, j.run_at, j.first_due_at, j.created_at,
            j.traceparent, p.place),
    -- Of these queues alone: there may be settings for very many.
    keep AS MATERIALIZED (
        SELECT q.queue, q.keep_succeeded_ms <> 0 AS whole, q.keep_succeeded_ms <> 0 OR q.receipts_ms <> 0 AS receipt
        FROM turno.queue q WHERE q.queue = ANY (ARRAY(SELECT DISTINCT g.queue FROM gone g) || ''::text)),
    alike AS MATERIALIZED (SELECT bool_and(k.whole) AS whole, bool_and(k.receipt) AS receipt FROM keep k),
    kept AS (
        INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts,
            max_run_ms, unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at,
            created_at, finished_at, traceparent)
        SELECT g.id, g.queue, g.kind, 'succeeded', CASE WHEN w.whole THEN g.payload END, CASE WHEN w.whole THEN g.result END,
            g.priority, g.attempt, g.failures, g.max_attempts, g.max_run_ms, g.unique_key, g.operation_id, 'complete',
            CASE WHEN g.token = p_tokens[1] THEN v_hash ELSE sha256(uuid_send(g.token)) END,
            false, g.worker, g.claimed_at, g.started_at, g.run_at, g.first_due_at, g.created_at, v_now, g.traceparent
        FROM gone g
        CROSS JOIN LATERAL (SELECT (SELECT a.whole FROM alike a)
            OR (SELECT k.whole FROM keep k WHERE k.queue IN (g.queue, '') ORDER BY k.queue DESC LIMIT 1) AS whole) w
        WHERE (SELECT a.receipt FROM alike a)
           OR (SELECT k.receipt FROM keep k WHERE k.queue IN (g.queue, '') ORDER BY k.queue DESC LIMIT 1))
    SELECT array_agg(g.place),
           CASE WHEN NOT (SELECT a.receipt FROM alike a) THEN array_agg(g.id) FILTER (WHERE NOT
               (SELECT k.receipt FROM keep k WHERE k.queue IN (g.queue, '') ORDER BY k.queue DESC LIMIT 1)) END
    INTO done, unkept FROM gone g;
END $$;
