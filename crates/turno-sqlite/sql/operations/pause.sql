-- pause: from now on no claim gets a job of this queue. The queue gets a row of its own first (queue_set.own).
-- Takes: :queue, :now. Returns: nothing.
-- Raises: nothing
-- Transaction: its own
-- Writes: queue
-- Locks: the database for writing
-- Rules: P5
-- DIFFERS: claims and pauses follow one another on the one writer, so there is no claim under way to wait for.

-- statement: mark
UPDATE turno_queue SET paused_at = coalesce(paused_at, :now) WHERE queue = :queue;
