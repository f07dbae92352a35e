-- forget: removes the record of one ended job with its attempts and keys, whatever its retention.
-- Takes: the job.
-- Returns: nothing.
-- Raises: TU005 if there is no such job; TU006 if it has not ended
-- Transaction: joins the caller's, or owns its own
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the rows of the job
-- Rules: P7
CREATE OR REPLACE FUNCTION turno.forget(p_job bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    IF turno.forget_rows(ARRAY(SELECT f.id FROM turno.finished_job f WHERE f.id = p_job FOR UPDATE)) > 0 THEN
        RETURN;
    END IF;
    IF EXISTS (SELECT FROM turno.job j WHERE j.id = p_job) THEN
        RAISE EXCEPTION 'job % has not ended', p_job USING ERRCODE = 'TU006';
    END IF;
    RAISE EXCEPTION 'there is no job %', p_job USING ERRCODE = 'TU005';
END $$;
