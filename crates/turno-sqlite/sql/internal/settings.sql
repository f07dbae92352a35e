-- settings: the settings that apply to a queue, its own or the installation's.
-- Takes: :queue. Returns: one row of turno_queue.
-- Raises: nothing
-- Transaction: the caller's
-- Writes: nothing
-- Locks: nothing
-- Rules: P6

-- statement: of_queue
SELECT queue, description, paused_at, aging_ms, max_attempts, max_run_ms, retry_base_ms, retry_cap_ms, max_attempts_limit,
       max_run_limit_ms, run_at_horizon_ms, keep_succeeded_ms, keep_cancelled_ms, keep_dead_ms, receipts_ms
FROM turno_queue
WHERE queue IN (:queue, '')
ORDER BY queue DESC
LIMIT 1;
