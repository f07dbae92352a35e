-- raise_refusal: turns the answer of a settle into an error, for the single forms.
-- Takes: the job, the status, the reason. Returns: nothing if the settle was accepted.
-- Raises: TU003, TU004, TU005
-- Transaction: joins the caller's, which then cannot commit
-- Writes: nothing
-- Locks: none
-- Rules: S5
CREATE OR REPLACE FUNCTION turno.raise_refusal(p_job bigint, p_status text, p_reason text) RETURNS void
LANGUAGE plpgsql IMMUTABLE
AS $$
BEGIN
    IF p_status = 'gone' THEN
        RAISE EXCEPTION 'job %: %', p_job, p_reason USING ERRCODE = 'TU005';
    ELSIF p_status = 'refused' AND p_reason LIKE 'already settled%' THEN
        RAISE EXCEPTION 'job %: %', p_job, p_reason USING ERRCODE = 'TU004';
    ELSIF p_status = 'refused' THEN
        RAISE EXCEPTION 'job %: %', p_job, p_reason USING ERRCODE = 'TU003';
    END IF;
END $$;
