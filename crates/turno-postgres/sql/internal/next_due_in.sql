-- next_due_in: how long until the next scheduled job of these queues is due.
-- Takes: queues. Returns: ms, at least 0; NULL if nothing is scheduled.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C7
CREATE OR REPLACE FUNCTION turno.next_due_in(p_queues text[]) RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
BEGIN
    RETURN (SELECT CASE WHEN min(due.run_at) IS NOT NULL
                THEN greatest(0, ceil(extract(epoch FROM min(due.run_at) - clock_timestamp()) * 1000))::bigint END
    FROM unnest(p_queues) q (name)
    CROSS JOIN LATERAL (SELECT j.run_at FROM turno.job j WHERE j.queue = q.name AND j.state = 'scheduled'
                        ORDER BY j.run_at, j.id LIMIT 1) due
    WHERE NOT EXISTS (SELECT FROM turno.queue p WHERE p.queue = q.name AND p.paused_at IS NOT NULL));
END $$;
