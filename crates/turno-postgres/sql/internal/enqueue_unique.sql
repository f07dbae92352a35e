-- enqueue_unique: inserts the rows that have a unique key, one by one in key order. Inserting a taken key waits for the
-- transaction that took it; if that rolls back, the job is created here.
-- Takes: the columns as in enqueue_rows, the ids and which rows are to be created.
-- Returns: ids and created, corrected for the rows whose key another unfinished job has.
-- Raises: 40001 if the holder ends again and again just when it is looked for
-- Transaction: joins the caller's
-- Writes: job, enqueue_key
-- Locks: unique keys in key order
-- Rules: E5, E12
CREATE OR REPLACE FUNCTION turno.enqueue_unique(
    p_queues text[], p_kinds text[], p_payloads text[], p_run_ats timestamptz[], p_priorities integer[], p_max_attempts integer[],
    p_max_run_ms bigint[], p_unique_keys text[], p_traceparents text[], p_ids bigint[], p_created boolean[], p_now timestamptz,
    OUT ids bigint[], OUT created boolean[])
LANGUAGE plpgsql
AS $$
DECLARE
    v_row    record;
    v_queue  turno.queue;
    v_run_at timestamptz;
    v_holder bigint;
BEGIN
    ids := p_ids;
    created := p_created;
    FOR v_row IN SELECT r.* FROM unnest(p_queues, p_unique_keys) WITH ORDINALITY AS r (queue, key, place)
                 WHERE r.key IS NOT NULL AND p_created[r.place]
                 ORDER BY r.queue COLLATE "C", r.key COLLATE "C", r.place
    LOOP
        v_queue := turno.settings(v_row.queue);
        v_run_at := greatest(p_now, turno.round_up(p_run_ats[v_row.place]));
        FOR v_try IN 1..20 LOOP
            INSERT INTO turno.job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, max_attempts,
                                   max_run_ms, unique_key, traceparent)
            VALUES (p_ids[v_row.place], v_row.queue, p_kinds[v_row.place], p_payloads[v_row.place],
                    coalesce(p_priorities[v_row.place], 0), CASE WHEN v_run_at <= p_now THEN 'ready' ELSE 'scheduled' END,
                    CASE WHEN v_run_at <= p_now
                         THEN turno.rank_of(v_run_at, coalesce(p_priorities[v_row.place], 0), v_queue.aging_ms) END,
                    v_run_at, v_run_at, p_now, coalesce(p_max_attempts[v_row.place], v_queue.max_attempts),
                    coalesce(p_max_run_ms[v_row.place], v_queue.max_run_ms), v_row.key,
                    turno.traceparent_kept(p_traceparents[v_row.place]))
            ON CONFLICT (queue, unique_key) WHERE unique_key IS NOT NULL DO NOTHING;
            EXIT WHEN FOUND;
            SELECT j.id INTO v_holder FROM turno.job j WHERE j.queue = v_row.queue AND j.unique_key = v_row.key;
            IF FOUND THEN
                ids[v_row.place] := v_holder;
                created[v_row.place] := false;
                UPDATE turno.enqueue_key k SET job_id = v_holder WHERE k.job_id = p_ids[v_row.place];
                EXIT;
            END IF;
            IF v_try = 20 THEN
                RAISE EXCEPTION 'unique key % changes hands too fast', v_row.key USING ERRCODE = '40001';
            END IF;
        END LOOP;
    END LOOP;
END $$;
