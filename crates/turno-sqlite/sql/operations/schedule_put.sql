-- schedule_put: creates or changes a schedule. The same again moves nothing. A new expression or zone counts from now, and is due at
-- once: no engine knows cron, so that whoever ticks next asks a calendar.
-- Takes: :name, :cron, :zone, :queue, :kind, :payload, :priority, :max_attempts, :max_run_ms, :unique_key, :missed, :missed_limit, :now.
-- Returns: the schedule's revision, 1 if it is new; no row if nothing has changed.
-- Raises: InvalidArgument beyond a limit, decided by the caller
-- Transaction: its own
-- Writes: schedule
-- Locks: the database for writing
-- Rules: K3, K7

-- statement: put
INSERT INTO turno_schedule AS s (name, cron, zone, queue, kind, payload, priority, max_attempts, max_run_ms, unique_key, missed,
    missed_limit, done_until, next_at, created_at, updated_at)
VALUES (:name, :cron, :zone, :queue, :kind, :payload, :priority, :max_attempts, :max_run_ms, :unique_key, :missed, :missed_limit,
    :now, :now, :now, :now)
ON CONFLICT (name) DO UPDATE
SET cron = excluded.cron, zone = excluded.zone, queue = excluded.queue, kind = excluded.kind, payload = excluded.payload,
    priority = excluded.priority, max_attempts = excluded.max_attempts, max_run_ms = excluded.max_run_ms,
    unique_key = excluded.unique_key, missed = excluded.missed, missed_limit = excluded.missed_limit,
    revision = s.revision + 1, updated_at = :now,
    done_until = CASE WHEN s.cron = excluded.cron AND s.zone = excluded.zone THEN s.done_until ELSE max(s.done_until, :now) END,
    next_at = CASE WHEN s.cron = excluded.cron AND s.zone = excluded.zone THEN s.next_at ELSE max(s.done_until, :now) END
WHERE s.cron <> excluded.cron OR s.zone <> excluded.zone OR s.queue <> excluded.queue OR s.kind <> excluded.kind
   OR s.payload <> excluded.payload OR s.priority <> excluded.priority OR s.max_attempts IS NOT excluded.max_attempts
   OR s.max_run_ms IS NOT excluded.max_run_ms OR s.unique_key IS NOT excluded.unique_key OR s.missed <> excluded.missed
   OR s.missed_limit IS NOT excluded.missed_limit
RETURNING revision;
