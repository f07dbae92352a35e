-- pause: no claim that starts after this has committed gets a job of the queue.
-- Takes: the queue.
-- Returns: nothing.
-- Raises: 23514 if the queue's name is not one
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P5
CREATE OR REPLACE FUNCTION turno.pause(p_queue text) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp
AS $$
BEGIN
    PERFORM turno.queue_row(p_queue);
    UPDATE turno.queue q SET paused_at = coalesce(q.paused_at, clock_timestamp()) WHERE q.queue = p_queue AND p_queue <> '';
END $$;
