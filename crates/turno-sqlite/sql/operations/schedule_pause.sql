-- schedule_pause: from now on nothing of the schedule is fired, until it is resumed. What is paused keeps its instant of the pause.
-- Takes: :name, :now. Returns: nothing.
-- Raises: NotFound if there is no such schedule, decided by the caller
-- Transaction: its own
-- Writes: schedule
-- Locks: the database for writing
-- Rules: K8

-- statement: mark
UPDATE turno_schedule
SET paused_at = coalesce(paused_at, :now), revision = revision + (paused_at IS NULL), updated_at = iif(paused_at IS NULL, :now, updated_at)
WHERE name = :name;
