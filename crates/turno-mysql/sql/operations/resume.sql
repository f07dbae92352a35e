-- resume: ends a pause.
-- Takes: the queue.
-- Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P5
CREATE PROCEDURE turno.resume(IN p_queue VARCHAR(255))
BEGIN
    DECLARE v_queue VARBINARY(255) DEFAULT p_queue;
    -- One statement: it is a transaction by itself, or part of the caller's.
    UPDATE turno.queue q SET q.paused_at = NULL WHERE q.queue = v_queue;
END
