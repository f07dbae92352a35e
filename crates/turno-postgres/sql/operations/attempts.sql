-- attempts: the ended attempts of one job, in order, the last one from its history.
-- Takes: the job.
-- Returns: attempt, worker, when it was claimed, started and ended, the verb that ended it, whether it was charged, its error and
--          the error's length before it was cut.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F7
CREATE OR REPLACE FUNCTION turno.attempts(p_job bigint)
RETURNS TABLE (attempt bigint, worker text, claimed_at timestamptz, started_at timestamptz, ended_at timestamptz, verb text,
    charged boolean, error text, error_bytes bigint)
LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
    SELECT a.attempt, a.worker, a.claimed_at, a.started_at, a.ended_at, a.verb, a.charged, a.error, a.error_bytes
    FROM turno.attempt a WHERE a.job_id = p_job
    UNION ALL
    SELECT f.attempt, f.worker, f.claimed_at, f.started_at, f.finished_at, f.verb, f.charged, f.error, f.error_bytes
    FROM turno.finished_job f WHERE f.id = p_job AND f.verb IS NOT NULL
    ORDER BY 1
$$;
