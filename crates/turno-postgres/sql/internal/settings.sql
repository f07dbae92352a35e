-- settings: the settings that apply to a queue, its own or the installation's.
-- Takes: the queue. Returns: one row of turno.queue.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: P6
CREATE OR REPLACE FUNCTION turno.settings(p_queue text) RETURNS turno.queue
LANGUAGE plpgsql STABLE
AS $$
DECLARE
    v_queue turno.queue;
BEGIN
    SELECT q.* INTO v_queue FROM turno.queue q WHERE q.queue IN (p_queue, '') ORDER BY q.queue DESC LIMIT 1;
    RETURN v_queue;
END $$;
