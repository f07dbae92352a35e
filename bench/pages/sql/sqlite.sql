-- Fills a new installation: :n ended jobs of 20 queues and 40 kinds in the last ten days, one in 50 of them dead with errors of
-- 120 sorts and one earlier attempt, one in 200 cancelled, one in 20 with a unique key; and 70,000 unfinished jobs.
BEGIN IMMEDIATE;
WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < :n),
t (g, at) AS (SELECT g, CAST((unixepoch() - 864000.0 * (:n - g) / :n) * 1000 AS INTEGER) * 1000 FROM s)
INSERT INTO turno_finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts, max_run_ms,
    unique_key, operation_id, verb, charged, worker, claimed_at, started_at, run_at, first_due_at, created_at, finished_at, error,
    error_bytes)
SELECT g, 'queue ' || min(g % 20, g % 7), 'kind ' || (g * 7919 % 40),
    CASE WHEN g % 50 = 0 THEN 'dead' WHEN g % 200 = 7 THEN 'cancelled' ELSE 'succeeded' END,
    '{"order": ' || g || ', "note": "' || substr('xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx', 1, g % 120) || '"}',
    CASE WHEN g % 50 <> 0 THEN '{"sent": true}' END, 0, CASE WHEN g % 50 = 0 THEN 2 ELSE 1 END, CASE WHEN g % 50 = 0 THEN 2 ELSE 0 END, 2,
    3600000, CASE WHEN g % 20 = 3 THEN 'order ' || g WHEN g % 20 = 4 THEN 'every minute' END, randomblob(16),
    CASE WHEN g % 50 = 0 THEN 'fail' WHEN g % 200 = 7 THEN NULL ELSE 'complete' END, g % 50 = 0, 'worker-' || g % 8, at, at, at - 40000,
    at - 40000, at - 60000, at + 150000,
    CASE WHEN g % 50 = 0 THEN 'error ' || char(65 + g / 50 % 12) || char(65 + g / 50 % 10) || ': no answer after ' || g || ' ms' END,
    CASE WHEN g % 50 = 0 THEN 40 END
FROM t;
UPDATE turno_finished_job SET queue = 'rare queue', kind = 'rare kind' WHERE id IN (17, 1017);
INSERT INTO turno_attempt (job_id, attempt, queue, verb, worker, claimed_at, started_at, ended_at, run_at, charged, error, error_bytes, state)
SELECT id, 1, queue, 'fail', worker, claimed_at, claimed_at, claimed_at, run_at, 1, error, 40, 'scheduled'
FROM turno_finished_job WHERE outcome = 'dead';
WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 5000)
INSERT INTO turno_refused (job_id, attempt, verb, queue, state, worker, reason, first_at, last_at)
SELECT g, 1, 'complete', 'queue 0', 'succeeded', 'late', 'already settled as complete', unixepoch() * 1000000, unixepoch() * 1000000 FROM s;
INSERT INTO sqlite_sequence (name, seq) VALUES ('turno_job', :n);
WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 20000)
INSERT INTO turno_job (queue, kind, payload, state, rank, run_at, first_due_at, created_at)
SELECT 'queue ' || g % 7, 'kind ' || g % 40, '{"order": ' || g || '}', 'ready', unixepoch() * 1000000 - g * 1000,
    unixepoch() * 1000000 - g * 1000, unixepoch() * 1000000 - g * 1000, unixepoch() * 1000000 - g * 1000
FROM s;
WITH RECURSIVE s (g) AS (SELECT 1 UNION ALL SELECT g + 1 FROM s WHERE g < 50000)
INSERT INTO turno_job (queue, kind, payload, state, run_at, first_due_at, created_at)
SELECT 'queue ' || g % 7, 'kind ' || g % 40, '{"order": ' || g || '}', 'scheduled', (unixepoch() + 86400 + g) * 1000000,
    (unixepoch() + 86400 + g) * 1000000, unixepoch() * 1000000
FROM s;
UPDATE turno_job SET state = 'running', token = randomblob(16), claimed_at = run_at, lease_until = unixepoch() * 1000000 + 3600000000,
    run_until = unixepoch() * 1000000 + 3610000000, attempt = 1, worker = 'worker-1'
WHERE state = 'ready' AND id % 100 = 0;
COMMIT;
