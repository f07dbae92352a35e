-- complete_many: ends attempts as succeeded. A refusal is an answer, and commits with its row in the ledger.
-- Takes: proofs as three arrays, at most 1000; results (JSON text or NULL); who sends them.
-- Returns: per proof its place: status done, already, refused or gone; the job's state; NULL; the reason of a refusal.
-- Raises: TU001
-- Transaction: joins the caller's, or owns its own
-- Writes: job, finished_job; enqueue_key and attempt if nothing is kept; refused
-- Locks: job rows in id order
-- Rules: S1, S3, S4, S6, S7, O2, O5, P7, P8
CREATE OR REPLACE FUNCTION turno.complete_many(
    p_jobs bigint[], p_attempts bigint[], p_tokens uuid[], p_results text[] DEFAULT NULL, p_worker text DEFAULT NULL)
RETURNS TABLE (place bigint, job_id bigint, status text, state text, run_at timestamptz, reason text)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
#variable_conflict use_column
DECLARE
    v_now    timestamptz := clock_timestamp();
    v_ids    bigint[];
    v_done   bigint[];
    v_kept   bigint;
BEGIN
    PERFORM turno.settle_check(p_jobs, p_attempts, p_tokens);
    -- Looked up one by one, which LATERAL with LIMIT makes the only possible plan: a join that was planned while the table was
    -- empty reads all of it later.
    SELECT array_agg(l.id), array_agg(r.place) INTO v_ids, v_done
    FROM (SELECT DISTINCT ON (u.job_id, u.attempt, u.token) u.*
          FROM unnest(p_jobs, p_attempts, p_tokens) WITH ORDINALITY AS u (job_id, attempt, token, place)
          ORDER BY u.job_id, u.attempt, u.token, u.place) r
    CROSS JOIN LATERAL (SELECT j.id FROM turno.job j WHERE j.id = r.job_id AND j.attempt = r.attempt AND j.token = r.token
                        LIMIT 1 FOR UPDATE) l;
    WITH gone AS (DELETE FROM turno.job j WHERE j.id = ANY (v_ids) RETURNING j.*),
    ended AS (SELECT g.*, p_results[u.place] AS result FROM gone g JOIN unnest(v_ids, v_done) AS u (id, place) ON u.id = g.id),
    kept AS (
        INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts,
            max_run_ms, unique_key, operation_id, verb, token_hash, charged, worker, claimed_at, started_at, run_at, first_due_at,
            created_at, finished_at)
        SELECT e.id, e.queue, e.kind, 'succeeded', CASE WHEN k.ms <> 0 THEN e.payload END, CASE WHEN k.ms <> 0 THEN e.result END,
            e.priority, e.attempt, e.failures, e.max_attempts, e.max_run_ms, e.unique_key, e.operation_id, 'complete',
            sha256(uuid_send(e.token)), false, e.worker, e.claimed_at, e.started_at, e.run_at, e.first_due_at, e.created_at, v_now
        FROM ended e
        JOIN turno.queue base ON base.queue = ''
        LEFT JOIN turno.queue own ON own.queue = e.queue
        CROSS JOIN LATERAL (SELECT coalesce(own.keep_succeeded_ms, base.keep_succeeded_ms) AS ms,
                                   coalesce(own.receipts_ms, base.receipts_ms) AS receipts_ms) k
        WHERE k.ms <> 0 OR k.receipts_ms <> 0
        RETURNING id)
    SELECT count(*) INTO v_kept FROM kept;
    IF v_kept < cardinality(v_done) THEN
        PERFORM turno.forget_rows(ARRAY(SELECT p_jobs[d.place] FROM unnest(v_done) AS d (place)
                                        WHERE NOT EXISTS (SELECT FROM turno.finished_job f WHERE f.id = p_jobs[d.place])));
    END IF;
    IF cardinality(v_done) = cardinality(p_jobs) THEN
        RETURN QUERY SELECT r.place, r.id, 'done', 'succeeded', NULL::timestamptz, NULL::text
                     FROM unnest(p_jobs) WITH ORDINALITY AS r (id, place);
        RETURN;
    END IF;
    FOR place, job_id IN SELECT r.place, r.id FROM unnest(p_jobs) WITH ORDINALITY AS r (id, place) ORDER BY r.place LOOP
        status := 'done'; state := 'succeeded'; run_at := NULL; reason := NULL;
        IF v_done IS NULL OR NOT place = ANY (v_done) THEN
            SELECT m.status, m.state, m.run_at, m.reason INTO status, state, run_at, reason
            FROM turno.settle_miss(job_id, p_attempts[place], p_tokens[place], 'complete', p_results[place], p_worker) m;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
