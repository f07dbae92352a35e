-- schema_version: the version of this schema and the oldest binary that may use it.
-- Takes: nothing.
-- Returns: both numbers, and whether a migration is making the routines anew at this moment.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: X2
CREATE PROCEDURE turno.schema_version()
BEGIN
    SELECT m.version, m.oldest_binary, m.migrating FROM turno.meta m;
END
