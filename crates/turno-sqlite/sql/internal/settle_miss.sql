-- settle_miss: answers a settle that found no running job under its proof: a repeat, a theft, or a job long gone.
-- Takes: the proof (:job, :attempt, :token), :verb. Returns: explain: status ('already', 'refused', 'gone'), whether it is another
--        verb's proof, state, run_at, reason, queue, owner, owner_attempt, state now.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: nothing; internal/ledger.sql records what was refused
-- Locks: nothing
-- Rules: S3, S4, S6, S7

-- statement: explain
WITH ended AS (
    SELECT verb, outcome AS state, NULL AS run_at FROM turno_finished_job
    WHERE id = :job AND attempt = :attempt AND token_hash = :token
    UNION ALL
    SELECT verb, state, run_at FROM turno_attempt WHERE job_id = :job AND attempt = :attempt AND token_hash = :token
    LIMIT 1
), found AS (
    SELECT e.verb, e.state, e.run_at, j.id AS job_id, f.id AS finished_id, coalesce(j.queue, f.queue) AS queue,
        coalesce(j.state, f.outcome) AS state_now, coalesce(j.worker, f.worker) AS owner,
        coalesce(j.attempt, f.attempt) AS owner_attempt
    FROM (SELECT 1) LEFT JOIN ended AS e LEFT JOIN turno_job AS j ON j.id = :job LEFT JOIN turno_finished_job AS f ON f.id = :job
)
SELECT CASE WHEN verb = :verb THEN 'already' WHEN state_now IS NULL THEN 'gone' ELSE 'refused' END,
    verb IS NOT NULL AND verb <> :verb,
    CASE WHEN verb = :verb THEN state ELSE state_now END,
    CASE WHEN verb = :verb THEN run_at END,
    CASE WHEN verb IS NOT NULL THEN 'already settled as ' || state || ' by ' || verb
         WHEN state_now = 'running' AND owner_attempt = :attempt THEN 'the token is not the one of attempt ' || owner_attempt
         WHEN state_now = 'running' THEN 'the lease is lost: attempt ' || owner_attempt || ' is running on ' || coalesce(owner, '?')
         WHEN job_id IS NOT NULL THEN 'the lease is lost: the job is ' || state_now || ' after attempt ' || owner_attempt
         WHEN finished_id IS NOT NULL THEN 'the lease is lost: the job ended as ' || state_now || ' in attempt ' || owner_attempt
         ELSE 'no record of the job is left' END,
    queue, owner, owner_attempt, state_now
FROM found;
