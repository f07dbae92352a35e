-- now: the database's clock, read once at the start of every operation and handed to its statements as :now.
-- Takes: nothing. Returns: microseconds since 1970.
-- Raises: nothing
-- Transaction: the caller's
-- Writes: nothing
-- Locks: nothing
-- Rules: T1, T3
-- DIFFERS: this engine's clock counts whole milliseconds and stands still within a statement.

-- statement: read
SELECT CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000 AS now;
