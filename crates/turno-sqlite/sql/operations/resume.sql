-- resume: ends a pause.
-- Takes: :queue. Returns: nothing.
-- Raises: nothing
-- Transaction: its own
-- Writes: queue
-- Locks: the database for writing
-- Rules: P5

-- statement: unmark
UPDATE turno_queue SET paused_at = NULL WHERE queue = :queue AND queue <> '';
