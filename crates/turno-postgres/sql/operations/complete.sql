-- complete: ends one attempt as succeeded, in the caller's transaction, so that the job's effects in this database and its
-- completion commit together. A refusal raises, and the transaction cannot commit: report it by refused_record afterwards.
-- Takes: the proof; the result (JSON text or NULL); who sends it.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, finished_job; enqueue_key and attempt if nothing is kept
-- Locks: the job's row
-- Rules: S1, S4, S5, O2, O5
CREATE OR REPLACE FUNCTION turno.complete(
    p_job bigint, p_attempt bigint, p_token uuid, p_result text DEFAULT NULL, p_worker text DEFAULT NULL,
    OUT status text, OUT state text, OUT run_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_answer record;
BEGIN
    SELECT * INTO v_answer FROM turno.complete_many(ARRAY[p_job], ARRAY[p_attempt], ARRAY[p_token], ARRAY[p_result], p_worker);
    PERFORM turno.raise_refusal(p_job, v_answer.status, v_answer.reason);
    status := v_answer.status;
    state := v_answer.state;
    run_at := v_answer.run_at;
END $$;
