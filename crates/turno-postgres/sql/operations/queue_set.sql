-- queue_set: changes settings of a queue, or of the installation's defaults. NULL leaves a setting as it is.
-- Takes: the queue ('': the defaults), then settings by name. aging_ms 0 returns to strict priority, run_at_horizon_ms -1 removes
--        that limit, keep_..._ms -1 keeps for ever, receipts_ms 0 turns receipts off. After a change of aging call rerank.
-- Returns: the settings.
-- Raises: 23514 with the constraint's name
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P6, P7, P8, E11, C9
CREATE OR REPLACE FUNCTION turno.queue_set(
    p_queue text, p_description text DEFAULT NULL, p_aging_ms bigint DEFAULT NULL, p_max_attempts integer DEFAULT NULL,
    p_max_run_ms bigint DEFAULT NULL, p_retry_base_ms bigint DEFAULT NULL, p_retry_cap_ms bigint DEFAULT NULL,
    p_max_attempts_limit integer DEFAULT NULL, p_max_run_limit_ms bigint DEFAULT NULL, p_run_at_horizon_ms bigint DEFAULT NULL,
    p_keep_succeeded_ms bigint DEFAULT NULL, p_keep_cancelled_ms bigint DEFAULT NULL, p_keep_dead_ms bigint DEFAULT NULL,
    p_receipts_ms bigint DEFAULT NULL)
RETURNS SETOF turno.queue
LANGUAGE sql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
    SELECT turno.queue_row(p_queue);
    UPDATE turno.queue q
    SET description = coalesce(p_description, q.description),
        aging_ms = CASE WHEN p_aging_ms = 0 THEN NULL ELSE coalesce(p_aging_ms, q.aging_ms) END,
        max_attempts = coalesce(p_max_attempts, q.max_attempts),
        max_run_ms = coalesce(p_max_run_ms, q.max_run_ms),
        retry_base_ms = coalesce(p_retry_base_ms, q.retry_base_ms),
        retry_cap_ms = coalesce(p_retry_cap_ms, q.retry_cap_ms),
        max_attempts_limit = coalesce(p_max_attempts_limit, q.max_attempts_limit),
        max_run_limit_ms = coalesce(p_max_run_limit_ms, q.max_run_limit_ms),
        run_at_horizon_ms = CASE WHEN p_run_at_horizon_ms = -1 THEN NULL
                                 ELSE coalesce(p_run_at_horizon_ms, q.run_at_horizon_ms) END,
        keep_succeeded_ms = coalesce(p_keep_succeeded_ms, q.keep_succeeded_ms),
        keep_cancelled_ms = coalesce(p_keep_cancelled_ms, q.keep_cancelled_ms),
        keep_dead_ms = coalesce(p_keep_dead_ms, q.keep_dead_ms),
        receipts_ms = coalesce(p_receipts_ms, q.receipts_ms)
    WHERE q.queue = p_queue
    RETURNING q.*
$$;
