-- rerank: gives ready jobs the rank that their queue's aging asks for, after it was changed, one batch a call.
-- Takes: the queue ('': every queue without settings of its own); the id after which to go on (start with 0); rows to look at.
-- Returns: the id to go on after; NULL when all is done.
-- Raises: TU001, TU002
-- Transaction: owns its own
-- Writes: job
-- Locks: job rows in id order, waiting for each at most 2 s (55P03 then): a row that was passed over would keep its old rank if
--        its holder rolled back
-- Rules: C9
CREATE OR REPLACE FUNCTION turno.rerank(p_queue text, p_after bigint, p_limit integer DEFAULT 1000) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
SET lock_timeout = '2s'
AS $$
DECLARE
    v_aging bigint := (turno.settings(p_queue)).aging_ms;
    v_until bigint;
    v_ids   bigint[];
BEGIN
    PERFORM turno.own_transaction('rerank');
    PERFORM turno.batch_check(p_limit);
    IF p_after IS NULL THEN
        RAISE EXCEPTION 'rerank begins after id 0, not after NULL' USING ERRCODE = 'TU001';
    END IF;
    SELECT max(t.id) INTO v_until FROM (SELECT j.id FROM turno.job j WHERE j.id > p_after ORDER BY j.id LIMIT p_limit) t;
    v_ids := ARRAY(SELECT j.id FROM turno.job j
                   WHERE j.id > p_after AND j.id <= v_until AND j.state = 'ready'
                     AND (j.queue = p_queue
                          OR p_queue = '' AND NOT EXISTS (SELECT FROM turno.queue q WHERE q.queue = j.queue))
                     AND j.rank <> turno.rank_of(j.run_at, j.priority, v_aging)
                   ORDER BY j.id FOR UPDATE OF j);
    UPDATE turno.job j SET rank = turno.rank_of(j.run_at, j.priority, v_aging) WHERE j.id = ANY (v_ids);
    RETURN v_until;
END $$;
