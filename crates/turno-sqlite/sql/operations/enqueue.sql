-- enqueue: adds jobs, all or none. Per job and in the order of the request: the idempotency key decides first, then the unique
-- key, then the job is created and its key recorded.
-- Takes: :queue, :kind, :payload, :run_at (microseconds, at least :now), :priority, :max_attempts, :max_run_ms, :unique_key,
--        :key (idempotency), :operation_id, :traceparent, :step (what one level of priority weighs), :now.
-- Returns: the id of the job that stands for the request (last_insert_rowid() after insert).
-- Raises: InvalidArgument beyond a limit of the queue, decided by the caller from internal/settings.sql
-- Transaction: joins the caller's, which must be able to write (BEGIN IMMEDIATE), else its own
-- Writes: job, enqueue_key
-- Locks: the database for writing
-- Rules: E1, E2, E3, E4, E5, E7, E8, E11, E12, T2, T3
-- DIFFERS: there is one writer, so nobody waits for another's key: whoever comes second sees the key or its absence. For the
--          same reason many are inserted in the order of the request and not in key order. No roles: enqueue_prioritized is
--          this statement with another :priority.

-- statement: find_key
SELECT job_id FROM turno_enqueue_key WHERE queue = :queue AND key = :key;

-- statement: find_unique
SELECT id FROM turno_job WHERE queue = :queue AND unique_key = :unique_key;

-- statement: insert
INSERT INTO turno_job (queue, kind, payload, state, priority, rank, run_at, first_due_at, max_attempts, max_run_ms, unique_key,
    operation_id, created_at, traceparent)
VALUES (:queue, :kind, :payload, CASE WHEN :run_at <= :now THEN 'ready' ELSE 'scheduled' END, :priority,
    CASE WHEN :run_at <= :now THEN :run_at + :priority * :step END, :run_at, :run_at, :max_attempts, :max_run_ms, :unique_key,
    :operation_id, :now, :traceparent);

-- statement: insert_key
INSERT INTO turno_enqueue_key (queue, key, job_id) VALUES (:queue, :key, :job);
