-- rerank: gives ready jobs the rank that their queue's aging asks for, after it was changed, one batch a call.
-- Takes: the queue ('': every queue without settings of its own); the id after which to go on (start with 0); rows to look at.
-- Returns: the id to go on after; NULL when all is done.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: job
-- Locks: job rows in id order, waiting for each as long as the server is set to: a row that was passed over would keep its old rank if
--        its holder rolled back
-- Rules: C9
CREATE PROCEDURE turno.rerank(IN p_queue VARCHAR(255), IN p_after BIGINT, IN p_limit BIGINT)
BEGIN
    DECLARE v_queue VARBINARY(255) DEFAULT p_queue;
    DECLARE v_own BOOLEAN;
    DECLARE v_until, v_step BIGINT;
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
    CALL turno.own_work('rerank');
    SET v_own = TRUE;
    CALL turno.batch_check(p_limit);
    IF p_after IS NULL THEN
        CALL turno.raise_error(31001, 'rerank begins after id 0, not after NULL');
    END IF;
    SELECT MAX(t.id) INTO v_until FROM (SELECT j.id FROM turno.job j FORCE INDEX (PRIMARY) WHERE j.id > p_after
                                          ORDER BY j.id LIMIT p_limit) t;
    SELECT COALESCE(q.aging_ms * 1000, 4503599627370496) INTO v_step FROM turno.queue q WHERE q.queue IN (v_queue, '')
                  ORDER BY q.queue DESC LIMIT 1;
    UPDATE (SELECT j.id FROM turno.job j FORCE INDEX (PRIMARY) WHERE j.id > p_after AND j.id <= v_until AND j.state = 'ready'
              AND j.rank <> j.run_at + j.priority * v_step
            ORDER BY j.id LIMIT p_limit FOR UPDATE) seen
    STRAIGHT_JOIN turno.job j FORCE INDEX (PRIMARY) ON j.id = seen.id
    SET j.rank = j.run_at + j.priority * v_step
    WHERE j.queue = v_queue OR v_queue = '' AND NOT EXISTS (SELECT 1 FROM turno.queue q WHERE q.queue = j.queue);
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT v_until AS after_id;
END
