-- schedule_fire: makes instants of a schedule jobs and moves it on, if it is still what was seen: seen finds it, each instant that has no
-- record yet becomes a job by the statements of enqueue, run records it, move moves the schedule.
-- Takes: seen: :name, :revision; found: :name, :instant; payload: :payload, :instant; run also :job, :now; move: :name, :until, :next_at,
--        :last_at, :last_job (NULL leaves the old).
-- Returns: seen: the job that an instant becomes, and until when all is dealt with; payload: with {instant} filled in.
-- Raises: InvalidArgument for instants that cannot be, or beyond a limit of the queue, decided by the caller
-- Transaction: its own
-- Writes: schedule, schedule_run, job
-- Locks: the database for writing
-- Rules: K1, K2, K5, K6, E5, E11
-- DIFFERS: there is one writer, so whoever comes second sees another revision, and nothing need be skipped.

-- statement: seen
SELECT queue, kind, payload, priority, max_attempts, max_run_ms, unique_key, done_until FROM turno_schedule
WHERE name = :name AND revision = :revision AND paused_at IS NULL;

-- statement: found
SELECT job_id FROM turno_schedule_run WHERE schedule = :name AND instant = :instant;

-- statement: payload
SELECT replace(:payload, '{instant}', strftime('%Y-%m-%dT%H:%M:%SZ', :instant / 1000000, 'unixepoch'));

-- statement: run
INSERT INTO turno_schedule_run (schedule, instant, job_id, fired_at) VALUES (:name, :instant, :job, :now);

-- statement: move
UPDATE turno_schedule
SET revision = revision + 1, done_until = :until, next_at = :next_at, last_at = coalesce(:last_at, last_at),
    last_job = coalesce(:last_job, last_job)
WHERE name = :name;
