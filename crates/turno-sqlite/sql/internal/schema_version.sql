-- schema_version: the memory of migrate. Every operation reads the version first; migrate writes it.
-- Takes: :name, :checksum of a schema file, :now. Returns: read: version and oldest_binary; files: name and checksum of what was run.
-- Raises: no such table if there is no schema
-- Transaction: joins the caller's
-- Writes: turno_schema_file; the schema files themselves write turno_meta
-- Locks: the database for writing
-- Rules: none; the schema is not part of the contract

-- statement: present
SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'turno_meta';

-- statement: read
SELECT version, oldest_binary FROM turno_meta WHERE only_row = 1;

-- statement: files
SELECT name, checksum FROM turno_schema_file;

-- statement: applied
INSERT INTO turno_schema_file (name, checksum, applied_at) VALUES (:name, :checksum, :now);
