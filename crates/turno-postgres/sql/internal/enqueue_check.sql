-- enqueue_check: refuses what the contract or the queue's settings do not allow, before anything is written. Lengths of names and
-- keys are constraints of the tables.
-- Takes: the distinct queues, then the columns that have limits. Returns: nothing.
-- Raises: TU001, with the row's number where one row is to blame
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: none
-- Rules: T2, E8, E9, E11
CREATE OR REPLACE FUNCTION turno.enqueue_check(
    p_distinct text[], p_queues text[], p_kinds text[], p_run_ats timestamptz[], p_priorities integer[],
    p_max_attempts integer[], p_max_run_ms bigint[], p_now timestamptz) RETURNS void
LANGUAGE plpgsql
AS $$
DECLARE
    v_bad text;
BEGIN
    SELECT format('%s %s contains a control character', n.what, quote_literal(n.name)) INTO v_bad
    FROM (SELECT 'queue' AS what, unnest(p_distinct) AS name UNION SELECT 'kind', unnest(p_kinds)) n
    WHERE n.name ~ '[\x01-\x1f\x7f]' LIMIT 1;
    IF v_bad IS NULL AND (p_run_ats IS NOT NULL OR p_priorities IS NOT NULL OR p_max_attempts IS NOT NULL OR p_max_run_ms IS NOT NULL) THEN
        WITH q AS MATERIALIZED (
            SELECT d.name, s.max_attempts_limit, s.max_run_limit_ms, s.run_at_horizon_ms
            FROM unnest(p_distinct) AS d (name) CROSS JOIN LATERAL turno.settings(d.name) s)
        SELECT format('row %s: %s', r.place, CASE
            WHEN r.run_at > '9999-12-31 23:59:59.999+00' THEN 'run_at is after the year 9999'
            WHEN r.run_at > p_now + make_interval(secs => q.run_at_horizon_ms / 1000.0)
                THEN format('run_at is beyond the horizon of queue %s, %s ms', q.name, q.run_at_horizon_ms)
            WHEN r.max_attempts NOT BETWEEN 1 AND q.max_attempts_limit
                THEN format('max_attempts %s is not in 1..%s', r.max_attempts, q.max_attempts_limit)
            WHEN r.max_run_ms NOT BETWEEN 1 AND q.max_run_limit_ms
                THEN format('max_run_ms %s is not in 1..%s', r.max_run_ms, q.max_run_limit_ms)
            ELSE format('priority %s is not in -1000..1000', r.priority) END)
        INTO v_bad
        FROM unnest(p_queues, p_run_ats, p_priorities, p_max_attempts, p_max_run_ms) WITH ORDINALITY
            AS r (queue, run_at, priority, max_attempts, max_run_ms, place)
        JOIN q ON q.name = r.queue
        WHERE r.run_at > '9999-12-31 23:59:59.999+00' OR r.run_at > p_now + make_interval(secs => q.run_at_horizon_ms / 1000.0)
           OR r.max_attempts NOT BETWEEN 1 AND q.max_attempts_limit OR r.max_run_ms NOT BETWEEN 1 AND q.max_run_limit_ms
           OR r.priority NOT BETWEEN -1000 AND 1000
        ORDER BY r.place LIMIT 1;
    END IF;
    IF v_bad IS NOT NULL THEN
        RAISE EXCEPTION '%', v_bad USING ERRCODE = 'TU001';
    END IF;
END $$;
