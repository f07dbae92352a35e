-- schedule_fire: makes instants of a schedule jobs and moves it on, if it is still what was seen. Many may ask for the same; one of them
-- does it, and nobody waits: who meets another's lock is told `already`.
-- Takes: its name and the revision that was seen; until when everything is dealt with by this, at most now; the instants that become
--        jobs, after done_until and at most until, at most 100; the first instant after until, NULL if there is none.
-- Returns: per instant that became a job its answer `done`, the instant, the job's id; one row without a job if there is none.
-- Raises: TU001 for instants that cannot be, or if the queue's settings refuse the job
-- Transaction: joins the caller's, or owns its own
-- Writes: schedule, schedule_run, enqueue_key, job
-- Locks: the schedule's row, skipped if somebody holds it; then the unique key
-- Rules: K1, K2, K5, K6, E5, E11, W2
CREATE OR REPLACE FUNCTION turno.schedule_fire(
    p_name text, p_revision bigint, p_until timestamptz, p_instants timestamptz[], p_next_at timestamptz)
RETURNS TABLE (answer text, instant timestamptz, job_id bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET enable_seqscan = off
AS $$
#variable_conflict use_column
DECLARE
    v_schedule turno.schedule;
    v_new      timestamptz[];
    v_n        integer;
BEGIN
    SELECT s.* INTO v_schedule FROM turno.schedule s
    WHERE s.name = p_name AND s.revision = p_revision AND s.paused_at IS NULL FOR UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        RETURN QUERY SELECT 'already'::text, NULL::timestamptz, NULL::bigint;
        RETURN;
    END IF;
    IF p_until IS NULL OR p_until > clock_timestamp() OR p_until < v_schedule.done_until OR p_next_at <= p_until
       OR cardinality(p_instants) > 100
       OR EXISTS (SELECT FROM unnest(p_instants) i WHERE (i > v_schedule.done_until AND i <= p_until) IS NOT TRUE) THEN
        RAISE EXCEPTION 'schedule % cannot fire these instants: at most 100, after done_until, and not ahead of the clock',
            quote_literal(p_name) USING ERRCODE = 'TU001';
    END IF;
    v_new := ARRAY(SELECT DISTINCT i FROM unnest(p_instants) i
                   WHERE NOT EXISTS (SELECT FROM turno.schedule_run r WHERE r.schedule = p_name AND r.instant = i) ORDER BY i);
    v_n := cardinality(v_new);
    IF v_n > 0 THEN
        INSERT INTO turno.schedule_run (schedule, instant, fired_at, job_id)
        SELECT p_name, v_new[e.place], clock_timestamp(), e.id
        FROM turno.enqueue_rows(array_fill(v_schedule.queue, ARRAY[v_n]), array_fill(v_schedule.kind, ARRAY[v_n]),
            ARRAY(SELECT replace(v_schedule.payload, '{instant}', to_char(i AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'))
                  FROM unnest(v_new) WITH ORDINALITY AS n (i, place) ORDER BY n.place),
            NULL, array_fill(v_schedule.priority, ARRAY[v_n]), array_fill(v_schedule.max_attempts, ARRAY[v_n]),
            array_fill(v_schedule.max_run_ms, ARRAY[v_n]), array_fill(v_schedule.unique_key, ARRAY[v_n]), NULL, NULL) e;
    END IF;
    UPDATE turno.schedule s
    SET revision = s.revision + 1, done_until = p_until, next_at = p_next_at, last_at = coalesce(v_new[v_n], s.last_at),
        last_job = coalesce((SELECT r.job_id FROM turno.schedule_run r WHERE r.schedule = p_name AND r.instant = v_new[v_n]), s.last_job)
    WHERE s.name = p_name;
    IF v_n = 0 THEN
        RETURN QUERY SELECT 'done'::text, NULL::timestamptz, NULL::bigint;
    END IF;
    RETURN QUERY SELECT 'done'::text, r.instant, r.job_id FROM turno.schedule_run r
                 WHERE r.schedule = p_name AND r.instant = ANY (v_new) ORDER BY r.instant;
END $$;
