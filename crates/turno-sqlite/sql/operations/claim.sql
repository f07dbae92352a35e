-- claim: takes up to :limit ready jobs of one queue, best first; called once per queue in the caller's order. Before it, due jobs
-- of the queues are promoted (promote.due); when it comes back short, expired leases are reaped (reap) and it tries once more.
-- Takes: :queue, :worker, :limit, :lease (microseconds), :token, :started (whether these jobs start at once), :from_rank (look
--        only from there on), :now.
-- Returns: the jobs, in no order (the caller sorts by rank, id); next_due: when the next scheduled job of a queue is due.
-- Raises: nothing
-- Transaction: its own
-- Writes: job
-- Locks: the database for writing
-- Rules: C1, C2, C3, C4, C6, C7, C8, C9, H3, P5, F2
-- DIFFERS: one writer: no row is ever held by somebody else, so there is nothing to skip. The pause is part of the statement.

-- statement: take
UPDATE turno_job
SET state = 'running', token = :token, worker = :worker, attempt = attempt + 1, claimed_at = :now,
    started_at = CASE WHEN :started THEN :now END,
    lease_until = :now + min(:lease, max_run_ms * 1000 + 10000000),
    run_until = :now + max_run_ms * 1000 + 10000000
WHERE id IN (SELECT best.id
             FROM turno_job AS best
             WHERE best.queue = :queue AND best.state = 'ready' AND best.rank >= :from_rank
               AND NOT EXISTS (SELECT 1 FROM turno_queue WHERE queue = :queue AND paused_at IS NOT NULL)
             ORDER BY best.rank, best.id
             LIMIT :limit)
RETURNING id, attempt, token, queue, kind, payload, priority, failures, max_attempts, operation_id, run_at, created_at, claimed_at,
    lease_until, max_run_ms, rank, traceparent;

-- statement: next_due
SELECT run_at
FROM turno_job
WHERE queue = :queue AND state = 'scheduled'
  AND NOT EXISTS (SELECT 1 FROM turno_queue WHERE queue = :queue AND paused_at IS NOT NULL)
ORDER BY run_at
LIMIT 1;
