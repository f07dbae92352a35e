-- audit: proves that no row is out of reach of every rule. One statement per invariant, named like its check.
-- Takes: nothing. Returns: of each check the number of violating rows (up to 10,000) and one job of them.
-- Raises: nothing
-- Transaction: any; one snapshot
-- Writes: nothing
-- Locks: nothing
-- Rules: V3, O3, F3, H3

-- statement: lease
SELECT count(*), min(id) FROM (SELECT id FROM turno_job
WHERE (state = 'running') <> (token IS NOT NULL AND lease_until IS NOT NULL AND run_until IS NOT NULL) LIMIT 10000);

-- statement: run_until
SELECT count(*), min(id) FROM (SELECT id FROM turno_job WHERE state = 'running' AND lease_until > run_until LIMIT 10000);

-- statement: rank
SELECT count(*), min(id) FROM (SELECT j.id FROM turno_job AS j, turno_queue AS s
WHERE s.queue = (SELECT max(q.queue) FROM turno_queue AS q WHERE q.queue IN (j.queue, ''))
  AND j.state = 'ready' AND j.rank IS NOT j.run_at + j.priority * coalesce(s.aging_ms * 1000, 4503599627370496) LIMIT 10000);

-- statement: budget
SELECT count(*), min(id) FROM (SELECT id FROM turno_job
WHERE state <> 'running' AND (failures >= max_attempts OR attempt >= 1000000) LIMIT 10000);

-- statement: twice
SELECT count(*), min(id) FROM (SELECT id FROM turno_job WHERE id IN (SELECT id FROM turno_finished_job) LIMIT 10000);

-- statement: key
SELECT count(*), min(job_id) FROM (SELECT job_id FROM turno_enqueue_key AS k
WHERE NOT EXISTS (SELECT 1 FROM turno_job WHERE id = k.job_id)
  AND NOT EXISTS (SELECT 1 FROM turno_finished_job WHERE id = k.job_id) LIMIT 10000);

-- statement: orphan
SELECT count(*), min(job_id) FROM (SELECT DISTINCT job_id FROM turno_attempt AS a
WHERE NOT EXISTS (SELECT 1 FROM turno_job WHERE id = a.job_id)
  AND NOT EXISTS (SELECT 1 FROM turno_finished_job WHERE id = a.job_id) LIMIT 10000);

-- statement: attempt
SELECT count(*), min(id) FROM (SELECT j.id FROM turno_job AS j
WHERE EXISTS (SELECT 1 FROM turno_attempt AS a WHERE a.job_id = j.id AND a.attempt >= j.attempt + (j.state <> 'running'))
   OR (j.state <> 'running' AND j.attempt > 0
       AND NOT EXISTS (SELECT 1 FROM turno_attempt AS a WHERE a.job_id = j.id AND a.attempt = j.attempt)) LIMIT 10000);

-- statement: outcome
SELECT count(*), min(id) FROM (SELECT id FROM turno_finished_job
WHERE (outcome = 'succeeded') <> (verb IS 'complete') OR (outcome = 'dead' AND verb IS NULL)
   OR (verb IS NOT NULL AND claimed_at IS NULL) LIMIT 10000);
