-- history_stats: how the jobs of one queue ended since an instant.
-- Takes: the queue, the instant. Returns: counts to 10000, and times over the latest 10000.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE OR REPLACE FUNCTION turno.history_stats(
    p_queue text, p_since timestamptz, OUT succeeded bigint, OUT dead bigint, OUT cancelled bigint, OUT start_p50_ms bigint,
    OUT start_p99_ms bigint, OUT finish_p50_ms bigint, OUT finish_p99_ms bigint)
LANGUAGE sql STABLE
AS $$
    WITH o AS (
        SELECT w.outcome, f.*
        FROM unnest(ARRAY['succeeded', 'dead', 'cancelled']) AS w (outcome)
        CROSS JOIN LATERAL (
            SELECT extract(epoch FROM f.claimed_at - f.run_at) * 1000 AS start_ms,
                   extract(epoch FROM f.finished_at - f.first_due_at) * 1000 AS finish_ms
            FROM turno.finished_job f
            WHERE hashtextextended(f.queue, ascii(f.outcome)) = hashtextextended(p_queue, ascii(w.outcome))
              AND f.queue = p_queue AND f.outcome = w.outcome AND f.finished_at >= p_since
            ORDER BY f.finished_at DESC, f.id DESC LIMIT 10000) f)
    SELECT count(*) FILTER (WHERE outcome = 'succeeded'), count(*) FILTER (WHERE outcome = 'dead'),
           count(*) FILTER (WHERE outcome = 'cancelled'),
           percentile_disc(0.5) WITHIN GROUP (ORDER BY start_ms)::bigint, percentile_disc(0.99) WITHIN GROUP (ORDER BY start_ms)::bigint,
           percentile_disc(0.5) WITHIN GROUP (ORDER BY finish_ms)::bigint,
           percentile_disc(0.99) WITHIN GROUP (ORDER BY finish_ms)::bigint
    FROM o
$$;
