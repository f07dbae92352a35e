-- queue_list: the settings of the installation first, then of every queue that has settings or rows, by name.
-- Takes: nothing.
-- Returns: rows of turno.queue; a queue without settings of its own shows the installation's.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: P6
CREATE PROCEDURE turno.queue_list()
BEGIN
    DECLARE v_queues LONGTEXT;
    CALL turno.queue_names(v_queues);
    CALL turno.queue_rows(CONCAT('[""', IF(v_queues = '[]', '', ','), SUBSTR(v_queues, 2)));
END
