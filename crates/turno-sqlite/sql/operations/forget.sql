-- forget: removes the record of one ended job with its attempts and keys, whatever its retention; the ledger keeps what it has.
-- The removing is done by internal/finish.sql.
-- Takes: :job. Returns: ended: a row if the job has ended; otherwise cancel.find says what it is.
-- Raises: NotFound; Conflict if it has not ended
-- Transaction: its own
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the database for writing
-- Rules: P7

-- statement: ended
SELECT id FROM turno_finished_job WHERE id = :job;
