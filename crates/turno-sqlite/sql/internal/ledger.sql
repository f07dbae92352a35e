-- ledger: records one refused result. The same result again counts up its row; beyond 100 rows for a job the newest row counts.
-- repeat first; if it changed nothing, add; if that added nothing, overflow.
-- Takes: :job, :attempt, :verb, :worker, :detail, and from settle_miss.explain :reason, :queue, :owner, :owner_attempt, :state; :now.
-- Returns: nothing
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: refused
-- Locks: the database for writing
-- Rules: S7

-- statement: repeat
UPDATE turno_refused SET times = times + 1, last_at = :now WHERE job_id = :job AND attempt = :attempt AND verb = :verb;

-- statement: add
INSERT INTO turno_refused (job_id, queue, attempt, verb, worker, reason, detail, owner, owner_attempt, state, first_at, last_at)
SELECT :job, :queue, :attempt, :verb, :worker, :reason, :detail, :owner, :owner_attempt, :state, :now, :now
WHERE (SELECT count(*) FROM turno_refused WHERE job_id = :job) < 100;

-- statement: overflow
UPDATE turno_refused SET times = times + 1, last_at = :now
WHERE id = (SELECT max(id) FROM turno_refused WHERE job_id = :job);
