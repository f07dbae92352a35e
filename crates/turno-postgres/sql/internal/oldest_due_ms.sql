-- oldest_due_ms: how long the oldest due job of a queue has been waiting for a worker.
-- Takes: the queue, its aging, now.
-- Returns: ms; NULL if no job is due. With strict priority exact: one leap of the ready index for each priority in use. With aging
--          exact unless more than 10000 jobs rank before the oldest.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: V1
CREATE OR REPLACE FUNCTION turno.oldest_due_ms(p_queue text, p_aging_ms bigint, p_now timestamptz) RETURNS bigint
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_oldest timestamptz;
    v_job    record;
    v_rank   bigint := -9223372036854775808;
BEGIN
    SELECT j.run_at INTO v_oldest FROM turno.job j WHERE j.queue = p_queue AND j.state = 'scheduled' AND j.run_at <= p_now
    ORDER BY j.run_at, j.id LIMIT 1;
    IF p_aging_ms IS NOT NULL THEN
        SELECT least(v_oldest, min(t.run_at)) INTO v_oldest
        FROM (SELECT j.run_at FROM turno.job j WHERE j.queue = p_queue AND j.state = 'ready' ORDER BY j.rank, j.id LIMIT 10000) t;
    ELSE
        LOOP
            SELECT j.run_at, j.rank INTO v_job FROM turno.job j
            WHERE j.queue = p_queue AND j.state = 'ready' AND j.rank >= v_rank ORDER BY j.rank, j.id LIMIT 1;
            EXIT WHEN NOT FOUND;
            v_oldest := least(v_oldest, v_job.run_at);
            -- To the beginning of the next priority: always further, whatever rank the row has.
            v_rank := ((v_job.rank >> 52) + 1) << 52;
            EXIT WHEN v_rank < v_job.rank;
        END LOOP;
    END IF;
    RETURN CASE WHEN v_oldest IS NOT NULL THEN greatest(0, floor(extract(epoch FROM p_now - v_oldest) * 1000))::bigint END;
END $$;
