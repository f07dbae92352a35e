-- schedule_remove: removes a schedule. Its jobs stay, and so do the records of its instants until prune removes them.
-- Takes: :name. Returns: how many rows it removed.
-- Raises: NotFound if there is no such schedule, decided by the caller
-- Transaction: its own
-- Writes: schedule
-- Locks: the database for writing
-- Rules: K1

-- statement: remove
DELETE FROM turno_schedule WHERE name = :name;
