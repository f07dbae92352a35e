-- Fills a new installation: :n ended jobs of 20 queues and 40 kinds in the last ten days, one in 50 of them dead with errors of
-- 120 sorts and one earlier attempt, one in 200 cancelled, one in 20 with a unique key; and 70,000 unfinished jobs.
\set ON_ERROR_STOP 1
SET synchronous_commit = off;
INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, result, priority, attempt, failures, max_attempts, max_run_ms,
    unique_key, operation_id, verb, charged, worker, claimed_at, started_at, run_at, first_due_at, created_at, finished_at, error,
    error_bytes)
SELECT g, 'queue ' || least(g % 20, g % 7), 'kind ' || (g * 7919 % 40),
    CASE WHEN g % 50 = 0 THEN 'dead' WHEN g % 200 = 7 THEN 'cancelled' ELSE 'succeeded' END,
    '{"order": ' || g || ', "note": "' || repeat('x', (g % 120)::int) || '"}', CASE WHEN g % 50 <> 0 THEN '{"sent": true}' END, 0,
    CASE WHEN g % 50 = 0 THEN 2 ELSE 1 END, CASE WHEN g % 50 = 0 THEN 2 ELSE 0 END, 2, 3600000,
    CASE WHEN g % 20 = 3 THEN 'order ' || g WHEN g % 20 = 4 THEN 'every minute' END, gen_random_uuid(),
    CASE WHEN g % 50 = 0 THEN 'fail' WHEN g % 200 = 7 THEN NULL ELSE 'complete' END, g % 50 = 0, 'worker-' || g % 8, t.at, t.at,
    t.at - interval '40 ms', t.at - interval '40 ms', t.at - interval '60 ms', t.at + interval '150 ms',
    CASE WHEN g % 50 = 0 THEN 'error ' || chr(65 + (g / 50 % 12)::int) || chr(65 + (g / 50 % 10)::int) || ': no answer after ' || g || ' ms' END,
    CASE WHEN g % 50 = 0 THEN 40 END
FROM generate_series(1::bigint, :n) g,
    LATERAL (SELECT clock_timestamp() - interval '10 days' * (:n - g) / :n AS at) t;
UPDATE turno.finished_job SET queue = 'rare queue', kind = 'rare kind' WHERE id IN (17, 1017);
INSERT INTO turno.attempt (job_id, attempt, queue, verb, worker, claimed_at, started_at, ended_at, run_at, charged, error, error_bytes, state)
SELECT f.id, 1, f.queue, 'fail', f.worker, f.claimed_at, f.claimed_at, f.claimed_at, f.run_at, true, f.error, 40, 'scheduled'
FROM turno.finished_job f WHERE f.outcome = 'dead';
INSERT INTO turno.refused (job_id, attempt, verb, queue, state, worker, reason, first_at, last_at)
SELECT g, 1, 'complete', 'queue 0', 'succeeded', 'late', 'already settled as complete', clock_timestamp(), clock_timestamp()
FROM generate_series(1, 5000) g;
SELECT setval('turno.job_id', :n);
INSERT INTO turno.job (queue, kind, payload, state, rank, run_at)
SELECT 'queue ' || g % 7, 'kind ' || g % 40, '{"order": ' || g || '}', 'ready', turno.rank_of(t.at, 0, NULL), t.at
FROM generate_series(1, 20000) g, LATERAL (SELECT clock_timestamp() - interval '1 ms' * g AS at) t;
INSERT INTO turno.job (queue, kind, payload, state, run_at)
SELECT 'queue ' || g % 7, 'kind ' || g % 40, '{"order": ' || g || '}', 'scheduled', clock_timestamp() + interval '1 day' + interval '1 s' * g
FROM generate_series(1, 50000) g;
SELECT count(*) FROM turno.claim(ARRAY['queue 1', 'queue 2'], 'worker-1', 200, 3600000, gen_random_uuid());
VACUUM ANALYZE turno.finished_job;
VACUUM ANALYZE turno.job;
VACUUM ANALYZE turno.attempt;
