-- complete_rows: moves jobs whose proofs are current from the hot table to the history, as the queue's retention says. One statement
-- finds, locks and removes them: its plan is pinned to the job's key joined to the proofs by a hash, since a plan that was made while
-- the table was empty reads all of it later.
-- Takes: proofs as three arrays; results. Returns: the places of the proofs that were current, and the jobs of which nothing was recorded.
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
    v_now timestamptz := clock_timestamp();
BEGIN
    WITH hash AS MATERIALIZED (
        SELECT d.token, sha256(uuid_send(d.token)) AS token_hash FROM (SELECT DISTINCT unnest(p_tokens) AS token) d),
    proof AS MATERIALIZED (
        SELECT DISTINCT ON (u.job_id, u.attempt, u.token) u.*, h.token_hash
        FROM unnest(p_jobs, p_attempts, p_tokens) WITH ORDINALITY AS u (job_id, attempt, token, place)
        JOIN hash h ON h.token = u.token
        ORDER BY u.job_id, u.attempt, u.token, u.place),
    gone AS (
        DELETE FROM turno.job j USING proof p
        WHERE j.id = ANY (p_jobs) AND j.id = p.job_id AND j.attempt = p.attempt AND j.token = p.token
        RETURNING j.*, p.place, p.token_hash),
    -- Of these queues alone: there may be settings for very many.
    keep AS MATERIALIZED (
        SELECT q.queue, q.keep_succeeded_ms <> 0 AS whole, q.keep_succeeded_ms <> 0 OR q.receipts_ms <> 0 AS receipt
        FROM turno.queue q WHERE q.queue = ANY (ARRAY(SELECT DISTINCT g.queue FROM gone g) || ''::text)),
    ended AS (
        SELECT g.*, coalesce(own.whole, (SELECT k.whole FROM keep k WHERE k.queue = '')) AS whole,
               coalesce(own.receipt, (SELECT k.receipt FROM keep k WHERE k.queue = '')) AS receipt
        FROM gone g LEFT JOIN keep own ON own.queue = g.queue),
    kept AS (
        INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts,
            max_run_ms, unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at,
            created_at, finished_at, traceparent)
        SELECT e.id, e.queue, e.kind, 'succeeded', CASE WHEN e.whole THEN e.payload END, CASE WHEN e.whole THEN p_results[e.place] END,
            e.priority, e.attempt, e.failures, e.max_attempts, e.max_run_ms, e.unique_key, e.operation_id, 'complete', e.token_hash,
            false, e.worker, e.claimed_at, e.started_at, e.run_at, e.first_due_at, e.created_at, v_now,
            e.traceparent
        FROM ended e WHERE e.receipt)
    SELECT array_agg(e.place), array_agg(e.id) FILTER (WHERE NOT e.receipt) INTO done, unkept FROM ended e;
END $$;
