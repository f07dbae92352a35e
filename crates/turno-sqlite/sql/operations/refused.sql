-- refused: a page of the ledger of refused results, newest first.
-- Takes: :job (of_job only), :before (a line's number), :limit. Returns: lines.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: nothing
-- Rules: S7, V2

-- statement: all
SELECT id, job_id, attempt, verb, worker, reason, detail, owner, owner_attempt, state, times, first_at, last_at
FROM turno_refused
WHERE id < :before
ORDER BY id DESC
LIMIT :limit;

-- statement: of_job
SELECT id, job_id, attempt, verb, worker, reason, detail, owner, owner_attempt, state, times, first_at, last_at
FROM turno_refused
WHERE job_id = :job AND id < :before
ORDER BY id DESC
LIMIT :limit;
