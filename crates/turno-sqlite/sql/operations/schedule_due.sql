-- schedule_due: the schedules whose time has come, longest due first, and when the next one comes. It only looks: see schedule_fire.
-- Takes: :now; due also :limit.
-- Returns: due: what a calendar needs; next: the instant of the first that is not due.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: K2

-- statement: due
SELECT name, cron, zone, missed, missed_limit, revision, done_until, next_at FROM turno_schedule
WHERE paused_at IS NULL AND next_at <= :now ORDER BY next_at, name LIMIT :limit;

-- statement: next
SELECT next_at FROM turno_schedule WHERE paused_at IS NULL AND next_at > :now ORDER BY next_at LIMIT 1;
