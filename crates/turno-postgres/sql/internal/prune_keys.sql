-- prune_keys: removes idempotency keys of jobs that are gone. A job that a unique key found may be removed before its new idempotency key
-- is committed, and no removal of a job sees that key. It looks at some keys from a random place on, and so at each of them in time.
-- Takes: how many keys to look at. Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: enqueue_key
-- Locks: the keys that it removes; skips those that somebody holds
-- Rules: P7, V3
CREATE OR REPLACE FUNCTION turno.prune_keys(p_limit integer) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_first bigint := (SELECT min(k.job_id) FROM turno.enqueue_key k);
    v_last  bigint := (SELECT max(k.job_id) FROM turno.enqueue_key k);
    v_from  bigint := v_first + floor(random() * (v_last - v_first))::bigint;
BEGIN
    DELETE FROM turno.enqueue_key k
    WHERE k.ctid = ANY (ARRAY(
        SELECT o.ctid FROM (SELECT e.job_id FROM turno.enqueue_key e WHERE e.job_id >= v_from ORDER BY e.job_id LIMIT p_limit) s
        JOIN turno.enqueue_key o ON o.job_id = s.job_id
        WHERE NOT EXISTS (SELECT FROM turno.job j WHERE j.id = s.job_id)
          AND NOT EXISTS (SELECT FROM turno.finished_job f WHERE f.id = s.job_id)
        FOR UPDATE OF o SKIP LOCKED));
END $$;
