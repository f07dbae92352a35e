-- jobs_stop: where a listing stops that looks at 10000 jobs below an id.
-- Takes: the state; the id. Returns: the last id that is looked at, or NULL if there are fewer.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V6
CREATE OR REPLACE FUNCTION turno.jobs_stop(p_state text, p_before bigint) RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    IF p_state IN ('scheduled', 'ready', 'running') THEN
        RETURN (SELECT j.id FROM turno.job j WHERE j.id < p_before ORDER BY j.id DESC OFFSET 9999 LIMIT 1);
    ELSIF p_state = 'succeeded' THEN
        RETURN (SELECT f.id FROM turno.finished_job f WHERE f.id < p_before ORDER BY f.id DESC OFFSET 9999 LIMIT 1);
    END IF;
    RETURN (SELECT f.id FROM turno.finished_job f WHERE f.outcome <> 'succeeded' AND f.outcome = p_state AND f.id < p_before
            ORDER BY f.id DESC OFFSET 9999 LIMIT 1);
END $$;
