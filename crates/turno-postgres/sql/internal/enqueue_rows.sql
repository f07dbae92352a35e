-- enqueue_rows: inserts jobs, all or none, and answers in the order of the input.
-- Takes: one array a column, all of one length; NULL elements take the queue's defaults.
-- Returns: per row its place (from 1), the job's id, whether this call created it.
-- Raises: TU001 beyond a limit; 23502, 23514 with the constraint's name beyond a limit of a column
-- Transaction: joins the caller's
-- Writes: enqueue_key, job
-- Locks: idempotency keys in key order, then unique keys in key order: two bulk calls cannot deadlock
-- Rules: E1, E3, E4, E5, E7, E11, E12, T3
CREATE OR REPLACE FUNCTION turno.enqueue_rows(
    p_queues text[], p_kinds text[], p_payloads text[], p_run_ats timestamptz[], p_priorities integer[], p_max_attempts integer[],
    p_max_run_ms bigint[], p_unique_keys text[], p_idempotency_keys text[], p_traceparents text[])
RETURNS TABLE (place bigint, id bigint, created boolean)
LANGUAGE plpgsql
AS $$
#variable_conflict use_column
DECLARE
    v_now     timestamptz := clock_timestamp();
    v_queues  text[] := ARRAY(SELECT DISTINCT unnest(p_queues) COLLATE "C");
    v_ids     bigint[] := ARRAY(SELECT nextval('turno.job_id') FROM generate_subscripts(p_queues, 1));
    v_created boolean[] := array_fill(true, ARRAY[coalesce(cardinality(p_queues), 0)]);
    v_keyed   boolean := EXISTS (SELECT FROM unnest(p_idempotency_keys) k WHERE k IS NOT NULL);
BEGIN
    PERFORM turno.enqueue_shape(p_queues, ARRAY[cardinality(p_kinds), cardinality(p_payloads), cardinality(p_run_ats),
        cardinality(p_priorities), cardinality(p_max_attempts), cardinality(p_max_run_ms), cardinality(p_unique_keys),
        cardinality(p_idempotency_keys), cardinality(p_traceparents)],
        ARRAY[array_upper(p_kinds, 1), array_upper(p_payloads, 1), array_upper(p_run_ats, 1), array_upper(p_priorities, 1), array_upper(p_max_attempts, 1),
        array_upper(p_max_run_ms, 1), array_upper(p_unique_keys, 1), array_upper(p_idempotency_keys, 1), array_upper(p_traceparents, 1)]);
    PERFORM turno.enqueue_check(v_queues, p_queues, p_kinds, p_run_ats, p_priorities, p_max_attempts, p_max_run_ms, v_now);
    IF v_keyed THEN
        v_created := turno.enqueue_keys(p_queues, p_idempotency_keys, v_ids);
    END IF;
    -- A job that is due now is due at v_now, so its rank differs from the next one's by priority alone.
    WITH q AS MATERIALIZED (
        SELECT d.name, s.max_attempts, s.max_run_ms, turno.rank_of(v_now, 0, s.aging_ms) AS rank,
               turno.rank_of(v_now, 1, s.aging_ms) - turno.rank_of(v_now, 0, s.aging_ms) AS step
        FROM unnest(v_queues) AS d (name) CROSS JOIN LATERAL turno.settings(d.name) s)
    INSERT INTO turno.job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, max_attempts, max_run_ms,
        traceparent)
    SELECT v_ids[r.place], r.queue, r.kind, r.payload, coalesce(r.priority, 0),
           CASE WHEN r.run_at > v_now THEN 'scheduled' ELSE 'ready' END,
           CASE WHEN r.run_at > v_now THEN NULL ELSE q.rank + coalesce(r.priority, 0) * q.step END,
           CASE WHEN r.run_at > v_now THEN turno.round_up(r.run_at) ELSE v_now END,
           CASE WHEN r.run_at > v_now THEN turno.round_up(r.run_at) ELSE v_now END,
           v_now, coalesce(r.max_attempts, q.max_attempts), coalesce(r.max_run_ms, q.max_run_ms), turno.traceparent_kept(r.traceparent)
    FROM unnest(p_queues, p_kinds, p_payloads, p_run_ats, p_priorities, p_max_attempts, p_max_run_ms, p_unique_keys, p_traceparents)
        WITH ORDINALITY AS r (queue, kind, payload, run_at, priority, max_attempts, max_run_ms, unique_key, traceparent, place)
    JOIN q ON q.name = r.queue
    WHERE r.unique_key IS NULL AND v_created[r.place];
    IF EXISTS (SELECT FROM unnest(p_unique_keys) k WHERE k IS NOT NULL) THEN
        SELECT u.ids, u.created INTO v_ids, v_created
        FROM turno.enqueue_unique(p_queues, p_kinds, p_payloads, p_run_ats, p_priorities, p_max_attempts, p_max_run_ms,
                                  p_unique_keys, p_traceparents, v_ids, v_created, v_now) u;
    END IF;
    PERFORM turno.ring(v_queues);
    IF NOT v_keyed THEN
        RETURN QUERY SELECT r.place, r.id, r.created FROM unnest(v_ids, v_created) WITH ORDINALITY AS r (id, created, place);
        RETURN;
    END IF;
    -- What a key stands for is read last: a unique key may have given it to another job, or prune has just removed it.
    FOR place, id, created IN
    SELECT r.place, CASE WHEN v_created[r.place] OR r.key IS NULL THEN v_ids[r.place] ELSE k.job_id END, v_created[r.place]
    FROM unnest(p_queues, p_idempotency_keys) WITH ORDINALITY AS r (queue, key, place)
    LEFT JOIN turno.enqueue_key k ON k.queue = r.queue AND k.key = r.key
    ORDER BY r.place LOOP
        IF id IS NULL THEN
            RAISE EXCEPTION 'an idempotency key was removed just now' USING ERRCODE = '40001';
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;
