-- enqueue_many: puts many jobs into queues, all or none.
-- Takes: one array a column, all of the length of p_queues; NULL arrays and elements take the queue's defaults.
-- Returns: per row its place (from 1), the job's id, whether this call created it; in the order of the input.
-- Raises: TU001 beyond a limit, with the row's place; 23502, 23514 with the constraint's name beyond a limit of a column
-- Transaction: joins the caller's, or owns its own
-- Writes: enqueue_key, job
-- Locks: idempotency keys in key order, then unique keys in key order
-- Rules: E1, E2, E7, E12
CREATE OR REPLACE FUNCTION turno.enqueue_many(
    p_queues text[], p_kinds text[], p_payloads text[],
    p_run_ats timestamptz[] DEFAULT NULL, p_max_attempts integer[] DEFAULT NULL,
    p_max_run_ms bigint[] DEFAULT NULL, p_unique_keys text[] DEFAULT NULL, p_idempotency_keys text[] DEFAULT NULL,
    p_traceparents text[] DEFAULT NULL)
RETURNS TABLE (place bigint, id bigint, created boolean)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
BEGIN
    RETURN QUERY
    SELECT * FROM turno.enqueue_rows(p_queues, p_kinds, p_payloads, p_run_ats, NULL, p_max_attempts, p_max_run_ms,
                                     p_unique_keys, p_idempotency_keys, p_traceparents);
END $$;
