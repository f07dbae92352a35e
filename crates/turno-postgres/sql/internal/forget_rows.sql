-- forget_rows: removes every record of ended jobs: history, attempts and keys.
-- Takes: job ids. Returns: how many were in the history.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the rows of these jobs, in that order of tables
-- Rules: P7, P8
CREATE OR REPLACE FUNCTION turno.forget_rows(p_jobs bigint[]) RETURNS bigint
LANGUAGE plpgsql
SET enable_seqscan = off
AS $$
DECLARE
    v_count bigint;
BEGIN
    DELETE FROM turno.finished_job f WHERE f.id = ANY (p_jobs);
    GET DIAGNOSTICS v_count = ROW_COUNT;
    DELETE FROM turno.attempt a WHERE a.job_id = ANY (p_jobs);
    DELETE FROM turno.enqueue_key k WHERE k.job_id = ANY (p_jobs);
    RETURN v_count;
END $$;
