-- reprioritize: changes the priority of an unfinished job; its due time stays.
-- Takes: the job; the priority, -1000..1000.
-- Returns: nothing.
-- Raises: TU001; TU005 if there is no such job; TU006 if it has ended
-- Transaction: joins the caller's, or owns its own
-- Writes: job
-- Locks: the job's row
-- Rules: P4
CREATE OR REPLACE FUNCTION turno.reprioritize(p_job bigint, p_priority integer) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    IF p_priority IS NULL OR p_priority NOT BETWEEN -1000 AND 1000 THEN
        RAISE EXCEPTION 'priority % is not in -1000..1000', p_priority USING ERRCODE = 'TU001';
    END IF;
    UPDATE turno.job j
    SET priority = p_priority,
        rank = CASE WHEN j.state = 'ready'
                    THEN turno.rank_of(j.run_at, p_priority, (turno.settings(j.queue)).aging_ms) ELSE j.rank END
    WHERE j.id = p_job;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'job % has ended as %', p_job, turno.ended_as(p_job) USING ERRCODE = 'TU006';
    END IF;
END $$;
