-- history_stats: how the jobs of one queue ended since an instant.
-- Takes: the queue, the instant. Returns: counts to 10000, and times over the latest 1000 of each outcome.
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
    WITH w AS (
        SELECT w.outcome, hashtextextended(p_queue, ascii(w.outcome)) AS hash
        FROM unnest(ARRAY['succeeded', 'dead', 'cancelled']) AS w (outcome)
    ), c AS (
        SELECT w.outcome, n.n
        FROM w CROSS JOIN LATERAL (
            SELECT count(*) AS n
            FROM (SELECT FROM turno.finished_job f
                  WHERE hashtextextended(f.queue, ascii(f.outcome)) = w.hash
                    AND f.queue = p_queue AND f.outcome = w.outcome AND f.finished_at >= p_since
                  ORDER BY f.finished_at DESC, f.id DESC LIMIT 10000) f) n
    ), t AS (
        SELECT (extract(epoch FROM f.claimed_at - f.run_at) * 1000)::bigint AS start_ms,
               (extract(epoch FROM f.finished_at - f.first_due_at) * 1000)::bigint AS finish_ms
        FROM w CROSS JOIN LATERAL (
            SELECT f.claimed_at, f.run_at, f.finished_at, f.first_due_at FROM turno.finished_job f
            WHERE hashtextextended(f.queue, ascii(f.outcome)) = w.hash
              AND f.queue = p_queue AND f.outcome = w.outcome AND f.finished_at >= p_since
            ORDER BY f.finished_at DESC, f.id DESC LIMIT 1000) f)
    SELECT (SELECT c.n FROM c WHERE c.outcome = 'succeeded'), (SELECT c.n FROM c WHERE c.outcome = 'dead'),
           (SELECT c.n FROM c WHERE c.outcome = 'cancelled'),
           percentile_disc(0.5) WITHIN GROUP (ORDER BY t.start_ms), percentile_disc(0.99) WITHIN GROUP (ORDER BY t.start_ms),
           percentile_disc(0.5) WITHIN GROUP (ORDER BY t.finish_ms), percentile_disc(0.99) WITHIN GROUP (ORDER BY t.finish_ms)
    FROM t
$$;
