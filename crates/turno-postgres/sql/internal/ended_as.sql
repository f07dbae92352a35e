-- ended_as: how a job that is not in the hot table ended.
-- Takes: the job. Returns: its outcome.
-- Raises: TU005 if there is no record of it
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: P1
CREATE OR REPLACE FUNCTION turno.ended_as(p_job bigint) RETURNS text
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_outcome text;
BEGIN
    SELECT f.outcome INTO v_outcome FROM turno.finished_job f WHERE f.id = p_job;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'there is no job %', p_job USING ERRCODE = 'TU005';
    END IF;
    RETURN v_outcome;
END $$;
