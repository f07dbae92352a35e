-- prune: removes records whose time is over, with their attempts and keys, ledger rows older than 30 days, and records of fired
-- instants older than 7 days.
-- Takes: the most jobs to remove, the most ledger rows, and the most records of instants; call again while it removes any.
-- Returns: how many jobs, ledger rows and records of instants were removed.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: finished_job, attempt, enqueue_key, refused, schedule_run
-- Locks: rows of the history in order of their end; skips those that somebody holds
-- Rules: P7, P8, S7, K5, C10
CREATE PROCEDURE turno.prune(IN p_limit BIGINT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_own BOOLEAN;
    DECLARE v_queues LONGTEXT;
    DECLARE v_queue VARBINARY(200);
    DECLARE v_place INT DEFAULT 0;
    DECLARE v_jobs, v_refused, v_runs BIGINT DEFAULT 0;
    DECLARE v_succeeded, v_cancelled, v_dead, v_receipts BIGINT;
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
    CALL turno.own_work('prune');
    SET v_own = TRUE;
    CALL turno.batch_check(p_limit);
    CALL turno.queue_names(v_queues);
    WHILE v_place < JSON_LENGTH(v_queues) AND v_jobs < p_limit DO
        SET v_queue = JSON_UNQUOTE(JSON_EXTRACT(v_queues, CONCAT('$[', v_place, ']')));
        SET v_place = v_place + 1;
        SELECT q.keep_succeeded_ms, q.keep_cancelled_ms, q.keep_dead_ms, q.receipts_ms
        INTO v_succeeded, v_cancelled, v_dead, v_receipts
        FROM turno.queue q WHERE q.queue IN (v_queue, '') ORDER BY q.queue DESC LIMIT 1;
        CALL turno.prune_outcome(v_queue, 'succeeded', v_now, IF(v_succeeded = 0, v_receipts, v_succeeded), p_limit, v_jobs);
        CALL turno.prune_outcome(v_queue, 'cancelled', v_now, IF(v_cancelled = 0, v_receipts, v_cancelled), p_limit, v_jobs);
        CALL turno.prune_outcome(v_queue, 'dead', v_now, IF(v_dead = 0, v_receipts, v_dead), p_limit, v_jobs);
    END WHILE;
    DELETE r FROM (SELECT o.id FROM turno.refused o FORCE INDEX (refused_by_time) WHERE o.last_at < v_now - 30 * 86400 * 1000000
                   ORDER BY o.last_at LIMIT p_limit FOR UPDATE SKIP LOCKED) old
    STRAIGHT_JOIN turno.refused r FORCE INDEX (PRIMARY) ON r.id = old.id;
    SET v_refused = ROW_COUNT();
    DELETE r FROM (SELECT o.schedule, o.instant FROM turno.schedule_run o FORCE INDEX (schedule_run_by_time)
                   WHERE o.fired_at < v_now - 7 * 86400 * 1000000 ORDER BY o.fired_at LIMIT p_limit FOR UPDATE SKIP LOCKED) old
    STRAIGHT_JOIN turno.schedule_run r FORCE INDEX (PRIMARY) ON r.schedule = old.schedule AND r.instant = old.instant;
    SET v_runs = ROW_COUNT();
    COMMIT AND NO CHAIN NO RELEASE;
    SELECT v_jobs AS jobs, v_refused AS refused, v_runs AS schedule_runs;
END
