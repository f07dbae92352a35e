-- enqueue_keys: takes idempotency keys. Inserting an existing key waits for the transaction that inserted it, so a key is "there"
-- only when its job is.
-- Takes: queues, keys (NULL: none), the ids that new jobs would get.
-- Returns: per row whether its job is to be created.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: enqueue_key
-- Locks: keys in key order
-- Rules: E4, E7
CREATE OR REPLACE FUNCTION turno.enqueue_keys(p_queues text[], p_keys text[], p_ids bigint[]) RETURNS boolean[]
LANGUAGE plpgsql
AS $$
DECLARE
    v_new     bigint[];
    v_created boolean[];
BEGIN
    LOOP
        WITH taken AS (
            INSERT INTO turno.enqueue_key (queue, key, job_id)
            SELECT DISTINCT ON (r.queue COLLATE "C", r.key COLLATE "C") r.queue, r.key, p_ids[r.place]
            FROM unnest(p_queues, p_keys) WITH ORDINALITY AS r (queue, key, place)
            WHERE r.key IS NOT NULL
            ORDER BY r.queue COLLATE "C", r.key COLLATE "C", r.place
            ON CONFLICT DO NOTHING
            RETURNING job_id)
        SELECT v_new || array_agg(t.job_id) INTO v_new FROM taken t;
        -- A job that a unique key found may have been removed before its new idempotency key was committed. Such a key stands for
        -- nothing and would never create anything.
        DELETE FROM turno.enqueue_key k
        USING unnest(p_queues, p_keys) AS r (queue, key)
        WHERE k.queue = r.queue AND k.key = r.key AND NOT k.job_id = ANY (coalesce(v_new, '{}'))
          AND NOT EXISTS (SELECT FROM turno.job j WHERE j.id = k.job_id)
          AND NOT EXISTS (SELECT FROM turno.finished_job f WHERE f.id = k.job_id);
        EXIT WHEN NOT FOUND;
    END LOOP;
    SELECT array_agg(r.key IS NULL OR n.id IS NOT NULL ORDER BY r.place) INTO v_created
    FROM unnest(p_keys, p_ids) WITH ORDINALITY AS r (key, id, place)
    LEFT JOIN unnest(v_new) AS n (id) ON n.id = r.id;
    RETURN v_created;
END $$;
