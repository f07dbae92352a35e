-- pause: no claim that starts after this has committed gets a job of the queue.
-- Takes: the queue.
-- Returns: nothing.
-- Raises: TU001; 3819 (MySQL) or 4025 (MariaDB) if the queue's name is not one
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P5
CREATE PROCEDURE turno.pause(IN p_queue VARCHAR(255))
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_queue VARBINARY(255) DEFAULT p_queue;
    DECLARE v_own BOOLEAN;
    DECLARE EXIT HANDLER FOR 1213
    BEGIN
        CALL turno.lost_work(v_own);
        RESIGNAL;
    END;
    DECLARE EXIT HANDLER FOR 1265
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL SQLSTATE '22001' SET MYSQL_ERRNO = 1406;
    END;
    DECLARE EXIT HANDLER FOR SQLEXCEPTION
    BEGIN
        CALL turno.undo_work(v_own);
        RESIGNAL;
    END;
    IF COALESCE(p_queue, '') = '' THEN
        CALL turno.raise_error(31001, 'a queue is paused by its name');
    END IF;
    CALL turno.begin_work(v_own);
    CALL turno.queue_row(p_queue);
    UPDATE turno.queue q SET q.paused_at = COALESCE(q.paused_at, v_now) WHERE q.queue = v_queue;
    CALL turno.end_work(v_own);
END
