-- prune: removes records whose time is over, with their attempts and keys, ledger rows older than 30 days, and records of fired
-- instants older than 7 days.
-- Takes: the most jobs to remove, the most ledger rows, and the most records of instants; call again while it removes any.
-- Returns: how many jobs, ledger rows and records of instants were removed.
-- Raises: TU001, TU002
-- Transaction: owns its own
-- Writes: finished_job, attempt, enqueue_key, refused, schedule_run
-- Locks: rows of the history in order of their end; skips those that somebody holds
-- Rules: P7, P8, S7, K5, C10
CREATE OR REPLACE FUNCTION turno.prune(p_limit integer DEFAULT 1000, OUT jobs bigint, OUT refused bigint, OUT schedule_runs bigint)
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off SET jit = off
AS $$
DECLARE
    v_now  timestamptz := clock_timestamp();
    v_rule record;
BEGIN
    PERFORM turno.own_transaction('prune');
    PERFORM turno.batch_check(p_limit);
    jobs := 0;
    FOR v_rule IN
        SELECT n.queue, o.outcome, CASE WHEN o.keep_ms = 0 THEN s.receipts_ms ELSE o.keep_ms END AS keep_ms
        FROM turno.queue_names() n CROSS JOIN LATERAL turno.settings(n.queue) s
        CROSS JOIN LATERAL (VALUES ('succeeded', s.keep_succeeded_ms), ('cancelled', s.keep_cancelled_ms),
                                   ('dead', s.keep_dead_ms)) AS o (outcome, keep_ms)
        WHERE o.keep_ms >= 0
    LOOP
        EXIT WHEN jobs >= p_limit;
        jobs := jobs + turno.forget_rows(ARRAY(
            SELECT f.id FROM turno.finished_job f
            WHERE hashtextextended(f.queue, ascii(f.outcome)) = hashtextextended(v_rule.queue, ascii(v_rule.outcome))
              AND f.queue = v_rule.queue AND f.outcome = v_rule.outcome
              AND f.finished_at < v_now - make_interval(secs => v_rule.keep_ms / 1000.0)
            ORDER BY f.finished_at, f.id LIMIT p_limit - jobs FOR UPDATE SKIP LOCKED));
    END LOOP;
    PERFORM turno.prune_keys(p_limit);
    DELETE FROM turno.refused r
    WHERE r.id = ANY (ARRAY(SELECT o.id FROM turno.refused o WHERE o.last_at < v_now - interval '30 days'
                            ORDER BY o.last_at LIMIT p_limit FOR UPDATE SKIP LOCKED));
    GET DIAGNOSTICS refused = ROW_COUNT;
    DELETE FROM turno.schedule_run r
    WHERE (r.schedule, r.instant) IN (SELECT o.schedule, o.instant FROM turno.schedule_run o
                                      WHERE o.fired_at < v_now - interval '7 days'
                                      ORDER BY o.fired_at LIMIT p_limit FOR UPDATE SKIP LOCKED);
    GET DIAGNOSTICS schedule_runs = ROW_COUNT;
END $$;
