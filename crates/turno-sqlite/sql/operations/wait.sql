-- wait: marks that somebody sleeps until one of these queues has work. The mark lives in the sleeper's process: a watch channel is
-- rung after each commit of the same process that made jobs ready; for other processes it looks every 20 ms whether
-- PRAGMA data_version changed, and then asks due. Nothing is written.
-- Takes: :queues (a JSON array of names), :now. Returns: due: whether one of them has due jobs and is not paused.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: nothing
-- Rules: W1, W2
-- DIFFERS: no NOTIFY here. PRAGMA data_version reads shared memory and costs no disk access.

-- statement: due
SELECT EXISTS (
    SELECT 1
    FROM json_each(:queues) AS q
    WHERE (EXISTS (SELECT 1 FROM turno_job WHERE queue = q.value AND state = 'ready')
        OR EXISTS (SELECT 1 FROM turno_job WHERE queue = q.value AND state = 'scheduled' AND run_at <= :now))
      AND NOT EXISTS (SELECT 1 FROM turno_queue WHERE queue = q.value AND paused_at IS NOT NULL)
);
