-- schedule_list: a page of schedules by name, or the one of this name.
-- Takes: page: :after, :limit; one: :name.
-- Returns: whole rows.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V2

-- statement: page
SELECT name, cron, zone, queue, kind, payload, priority, max_attempts, max_run_ms, unique_key, missed, missed_limit, revision,
       done_until, next_at, paused_at, last_at, last_job, created_at, updated_at
FROM turno_schedule WHERE name > :after ORDER BY name LIMIT :limit;

-- statement: one
SELECT name, cron, zone, queue, kind, payload, priority, max_attempts, max_run_ms, unique_key, missed, missed_limit, revision,
       done_until, next_at, paused_at, last_at, last_job, created_at, updated_at
FROM turno_schedule WHERE name = :name;
