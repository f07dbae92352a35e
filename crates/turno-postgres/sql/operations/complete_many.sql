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
    v_once   bigint[];
    v_done   bigint[];
    v_unkept bigint[];
BEGIN
    PERFORM turno.settle_check(p_jobs, p_attempts, p_tokens);
    -- Of a proof that comes twice the first counts, and the others are repeats.
    IF (SELECT count(*) FROM (SELECT DISTINCT unnest(p_jobs)) d) < cardinality(p_jobs) THEN
        v_once := ARRAY(SELECT CASE WHEN row_number() OVER (PARTITION BY u.job_id, u.attempt, u.token ORDER BY u.place) = 1 THEN u.job_id END
                        FROM unnest(p_jobs, p_attempts, p_tokens) WITH ORDINALITY AS u (job_id, attempt, token, place)
                        ORDER BY u.place);
    END IF;
    SELECT r.done, r.unkept INTO v_done, v_unkept FROM turno.complete_rows(coalesce(v_once, p_jobs), p_attempts, p_tokens, p_results) r;
    IF v_unkept IS NOT NULL THEN
        PERFORM turno.forget_rows(v_unkept);
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
