-- audit: proves that no row is out of reach of every rule. One statement per invariant, named like its check.
-- Takes: :now (due_ahead only). Returns: of each check the number of violating rows (up to 10,000) and one job of them.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V3, O3, F3, H3

-- statement: running_half
SELECT count(*), min(id) FROM (SELECT id FROM turno_job
WHERE (state = 'running') <> (token IS NOT NULL AND lease_until IS NOT NULL AND run_until IS NOT NULL) LIMIT 10000);

-- statement: lease_too_long
SELECT count(*), min(id) FROM (SELECT id FROM turno_job WHERE state = 'running' AND lease_until > run_until LIMIT 10000);

-- statement: rank_wrong
SELECT count(*), min(id) FROM (SELECT j.id FROM turno_job AS j, turno_queue AS s
WHERE s.queue = (SELECT max(q.queue) FROM turno_queue AS q WHERE q.queue IN (j.queue, ''))
  AND j.state = 'ready' AND j.rank IS NOT j.run_at + j.priority * coalesce(s.aging_ms * 1000, 4503599627370496) LIMIT 10000);

-- statement: budget_spent
SELECT count(*), min(id) FROM (SELECT id FROM turno_job
WHERE state <> 'running' AND (failures >= max_attempts OR attempt >= 1000000) LIMIT 10000);

-- statement: ended_twice
SELECT count(*), min(id) FROM (SELECT id FROM turno_job WHERE id IN (SELECT id FROM turno_finished_job) LIMIT 10000);

-- statement: key_orphan
SELECT count(*), min(job_id) FROM (SELECT job_id FROM turno_enqueue_key AS k
WHERE NOT EXISTS (SELECT 1 FROM turno_job WHERE id = k.job_id)
  AND NOT EXISTS (SELECT 1 FROM turno_finished_job WHERE id = k.job_id) LIMIT 10000);

-- statement: attempt_orphan
SELECT count(*), min(job_id) FROM (SELECT DISTINCT job_id FROM turno_attempt AS a
WHERE NOT EXISTS (SELECT 1 FROM turno_job WHERE id = a.job_id)
  AND NOT EXISTS (SELECT 1 FROM turno_finished_job WHERE id = a.job_id) LIMIT 10000);

-- statement: attempt_ahead
SELECT count(*), min(job_id) FROM (SELECT a.job_id FROM turno_attempt AS a JOIN turno_job AS j ON j.id = a.job_id
WHERE a.attempt >= j.attempt + (j.state <> 'running')
UNION ALL
SELECT a.job_id FROM turno_attempt AS a JOIN turno_finished_job AS f ON f.id = a.job_id
WHERE a.attempt >= f.attempt + (f.verb IS NULL) LIMIT 10000);

-- statement: attempt_missing
SELECT count(*), min(id) FROM (SELECT j.id FROM turno_job AS j
WHERE j.state <> 'running' AND j.attempt > 0
  AND NOT EXISTS (SELECT 1 FROM turno_attempt AS a WHERE a.job_id = j.id AND a.attempt = j.attempt) LIMIT 10000);

-- statement: due_ahead
SELECT count(*), min(id) FROM (SELECT id FROM turno_job WHERE state = 'ready' AND run_at > :now + 1000000 LIMIT 10000);

-- statement: outcome_wrong
SELECT count(*), min(id) FROM (SELECT id FROM turno_finished_job
WHERE (outcome = 'succeeded') <> (verb IS 'complete') OR (outcome = 'dead' AND verb IS NULL)
   OR (verb IS NOT NULL AND claimed_at IS NULL) LIMIT 10000);
