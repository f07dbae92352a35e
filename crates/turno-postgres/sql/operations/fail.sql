-- fail: ends one attempt as failed, in the caller's transaction. A refusal raises, and the transaction cannot commit.
-- Takes: the proof; the error; the retry delay in ms (NULL: by policy, -1: never again); who sends it.
-- Returns: status done or already; the job's state; when it is due again.
-- Raises: TU003 if the proof is not the current one, TU004 if the attempt was settled with another verb, TU005 if no record is left
-- Transaction: joins the caller's, or owns its own
-- Writes: job, attempt, finished_job
-- Locks: the job's row
-- Rules: S1, S4, S5, F1, F3, F4, F5, F6
CREATE OR REPLACE FUNCTION turno.fail(
    p_job bigint, p_attempt bigint, p_token uuid, p_error text,
    p_retry_ms bigint DEFAULT NULL, p_worker text DEFAULT NULL,
    OUT status text, OUT state text, OUT run_at timestamptz)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
DECLARE
    v_answer record;
BEGIN
    SELECT * INTO v_answer FROM turno.fail_many(ARRAY[p_job], ARRAY[p_attempt], ARRAY[p_token], ARRAY[p_error], ARRAY[p_retry_ms], p_worker);
    PERFORM turno.raise_refusal(p_job, v_answer.status, v_answer.reason);
    status := v_answer.status;
    state := v_answer.state;
    run_at := v_answer.run_at;
END $$;
