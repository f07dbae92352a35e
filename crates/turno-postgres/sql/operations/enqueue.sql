-- enqueue: puts one job into a queue, for anybody who may produce work. It has no priority: see enqueue_prioritized.
-- Takes: queue, kind, payload (JSON text); optionally when it is due (NULL or past: now), the failure budget,
--        the time per attempt in ms, a unique key, an idempotency key, a traceparent
--        (W3C; dropped if malformed).
-- Returns: the job's id, and whether this call created it.
-- Raises: TU001 beyond a limit; 23502, 23514 with the constraint's name beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E2, E3, E4, E5, E12
CREATE OR REPLACE FUNCTION turno.enqueue(
    p_queue text, p_kind text, p_payload text,
    p_run_at timestamptz DEFAULT NULL, p_max_attempts integer DEFAULT NULL,
    p_max_run_ms bigint DEFAULT NULL, p_unique_key text DEFAULT NULL, p_idempotency_key text DEFAULT NULL,
    p_traceparent text DEFAULT NULL,
    OUT id bigint, OUT created boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    SELECT r.id, r.created INTO id, created
    FROM turno.enqueue_rows(ARRAY[p_queue], ARRAY[p_kind], ARRAY[p_payload], ARRAY[p_run_at], NULL::integer[],
        ARRAY[p_max_attempts], ARRAY[p_max_run_ms], ARRAY[p_unique_key], ARRAY[p_idempotency_key], ARRAY[p_traceparent]) r;
END $$;
