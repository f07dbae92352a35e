-- refused_record: puts a refusal into the ledger that happened inside a caller's transaction, which could not record it. Who owns
-- the job now is asked from internal/settle_miss.sql; the row is written by internal/ledger.sql; nothing else belongs to it.
-- Takes: :job. Returns: known: whether any record of the job is left.
-- Raises: nothing
-- Transaction: its own
-- Writes: refused
-- Locks: the database for writing
-- Rules: S5, S7

-- statement: known
SELECT EXISTS (SELECT 1 FROM turno_job WHERE id = :job) OR EXISTS (SELECT 1 FROM turno_finished_job WHERE id = :job);
