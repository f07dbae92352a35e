-- schedule_resume: ends a pause. Nothing is fired for its time: the schedule counts from now, and is due at once, so that whoever ticks
-- next asks a calendar for the next instant.
-- Takes: :name; unmark also :now. Returns: unmark: how many rows it changed, none if the schedule is not paused.
-- Raises: NotFound if there is no such schedule, decided by the caller
-- Transaction: its own
-- Writes: schedule
-- Locks: the database for writing
-- Rules: K8

-- statement: unmark
UPDATE turno_schedule
SET paused_at = NULL, revision = revision + 1, updated_at = :now, done_until = max(done_until, :now), next_at = max(done_until, :now)
WHERE name = :name AND paused_at IS NOT NULL;

-- statement: find
SELECT 1 FROM turno_schedule WHERE name = :name;
