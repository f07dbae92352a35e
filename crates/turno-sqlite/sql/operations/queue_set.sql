-- queue_set: changes settings of a queue, or of the defaults (''). A queue without a row first gets one with the defaults (own). If
-- aging changed, the ready jobs get their new ranks in batches, each in its own transaction: batch_end, then rerank, until NULL.
-- Takes: :queue; one parameter per setting, NULL to leave it, and :set_aging, :set_horizon for those that may become NULL; rerank:
--        :after, :until (ids).
-- Returns: nothing; the caller reads internal/settings.sql.
-- Raises: InvalidArgument by the CHECK constraints of turno_queue
-- Transaction: its own
-- Writes: queue; rerank: job
-- Locks: the database for writing
-- Rules: P6, C9, E11

-- statement: own
INSERT INTO turno_queue (queue, aging_ms, max_attempts, max_run_ms, retry_base_ms, retry_cap_ms, max_attempts_limit,
    max_run_limit_ms, run_at_horizon_ms, keep_succeeded_ms, keep_cancelled_ms, keep_dead_ms, receipts_ms)
SELECT :queue, aging_ms, max_attempts, max_run_ms, retry_base_ms, retry_cap_ms, max_attempts_limit, max_run_limit_ms,
    run_at_horizon_ms, keep_succeeded_ms, keep_cancelled_ms, keep_dead_ms, receipts_ms
FROM turno_queue
WHERE queue = ''
ON CONFLICT DO NOTHING;

-- statement: change
UPDATE turno_queue
SET description = coalesce(:description, description),
    aging_ms = CASE WHEN :set_aging THEN :aging_ms ELSE aging_ms END,
    max_attempts = coalesce(:max_attempts, max_attempts),
    max_run_ms = coalesce(:max_run_ms, max_run_ms),
    retry_base_ms = coalesce(:retry_base_ms, retry_base_ms),
    retry_cap_ms = coalesce(:retry_cap_ms, retry_cap_ms),
    max_attempts_limit = coalesce(:max_attempts_limit, max_attempts_limit),
    max_run_limit_ms = coalesce(:max_run_limit_ms, max_run_limit_ms),
    run_at_horizon_ms = CASE WHEN :set_horizon THEN :run_at_horizon_ms ELSE run_at_horizon_ms END,
    keep_succeeded_ms = coalesce(:keep_succeeded_ms, keep_succeeded_ms),
    keep_cancelled_ms = coalesce(:keep_cancelled_ms, keep_cancelled_ms),
    keep_dead_ms = coalesce(:keep_dead_ms, keep_dead_ms),
    receipts_ms = coalesce(:receipts_ms, receipts_ms)
WHERE queue = :queue;

-- statement: batch_end
SELECT max(id) FROM (SELECT id FROM turno_job WHERE id > :after ORDER BY id LIMIT 1000);

-- statement: rerank
UPDATE turno_job NOT INDEXED
SET rank = run_at + priority * (SELECT coalesce(aging_ms * 1000, 4503599627370496) FROM turno_queue WHERE queue = :queue)
WHERE id > :after AND id <= :until AND rank IS NOT NULL
  AND (queue = :queue OR :queue = '' AND NOT EXISTS (SELECT 1 FROM turno_queue AS q WHERE q.queue = turno_job.queue));
