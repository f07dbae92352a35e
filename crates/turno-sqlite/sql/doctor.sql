-- doctor: what the database file says about an installation. These statements run on a connection of their own, also while the
-- schema is missing or broken.
-- Takes: nothing.
-- Returns: facts; src/doctor.rs judges them.
-- Raises: SQLITE_BUSY while somebody holds what a statement needs
-- Transaction: each its own
-- Writes: nothing; `log` moves what it can from the log into the database, as any writer does
-- Locks: `write` the database for writing, for an instant
-- Rules: V5

-- statement: version
SELECT sqlite_version();

-- statement: objects
SELECT type, name, tbl_name, coalesce(sql, '') FROM sqlite_schema
WHERE type IN ('table', 'index', 'trigger') AND tbl_name GLOB 'turno_*' AND sql IS NOT NULL ORDER BY type, name LIMIT 1000;

-- statement: journal
PRAGMA journal_mode;

-- statement: log
PRAGMA wal_checkpoint(PASSIVE);

-- statement: write
BEGIN IMMEDIATE;
