-- queue_list: all settings: the defaults first, then every queue that has settings or jobs, by name. The names of queues that have
-- only jobs come from stats.queues; the defaults apply to them.
-- Takes: nothing. Returns: rows of turno_queue.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: P6

-- statement: list
SELECT queue, description, paused_at, aging_ms, max_attempts, max_run_ms, retry_base_ms, retry_cap_ms, max_attempts_limit,
       max_run_limit_ms, run_at_horizon_ms, keep_succeeded_ms, keep_cancelled_ms, keep_dead_ms, receipts_ms
FROM turno_queue
ORDER BY queue;
