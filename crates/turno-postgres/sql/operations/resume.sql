-- resume: ends a pause.
-- Takes: the queue.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P5
CREATE OR REPLACE FUNCTION turno.resume(p_queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    UPDATE turno.queue q SET paused_at = NULL WHERE q.queue = p_queue;
    PERFORM turno.ring(ARRAY[p_queue]);
END $$;
