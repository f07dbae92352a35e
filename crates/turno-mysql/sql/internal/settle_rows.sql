-- settle_rows: ends attempts one by one, in the order of the request.
-- Takes: the verb, the batch, who sends it.
-- Returns: per proof a JSON array: its place, the job, the status, the job's state, when it is due again, the reason of a refusal.
-- Raises: TU001
-- Transaction: joins the caller's
-- Writes: job, attempt, unique_key, finished_job, refused; enqueue_key if nothing is kept
-- Locks: job rows in the order of the request
-- Rules: S1, S3
CREATE PROCEDURE turno.settle_rows(IN p_verb VARCHAR(8), IN p_settles LONGTEXT, IN p_worker VARCHAR(255), OUT p_answers LONGTEXT)
BEGIN
    DECLARE v_now BIGINT DEFAULT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6));
    DECLARE v_done BOOLEAN DEFAULT FALSE;
    DECLARE v_place, v_job, v_attempt, v_bytes, v_delay, v_run_at BIGINT;
    DECLARE v_token CHAR(36);
    DECLARE v_detail LONGTEXT;
    DECLARE v_reason TEXT;
    DECLARE v_status, v_state VARCHAR(9);
    DECLARE v_settles CURSOR FOR
        SELECT r.place, r.job, r.attempt, r.token, COALESCE(r.result, r.error), r.error_bytes, COALESCE(r.retry_ms, r.delay_ms)
        FROM JSON_TABLE(p_settles, '$[*]' COLUMNS (
            place FOR ORDINALITY, job BIGINT PATH '$.job', attempt BIGINT PATH '$.attempt', token CHAR(36) PATH '$.token',
            retry_ms BIGINT PATH '$.retry_ms', delay_ms BIGINT PATH '$.delay_ms', error_bytes BIGINT PATH '$.error_bytes',
            result LONGTEXT CHARACTER SET utf8mb4 PATH '$.result', error LONGTEXT CHARACTER SET utf8mb4 PATH '$.error')) r
        ORDER BY r.place;
    SET p_answers = '';
    OPEN v_settles;
    WHILE NOT v_done DO
        BEGIN
            DECLARE EXIT HANDLER FOR NOT FOUND SET v_done = TRUE;
            FETCH v_settles INTO v_place, v_job, v_attempt, v_token, v_detail, v_bytes, v_delay;
        END;
        IF NOT v_done THEN
            IF v_job IS NULL OR v_attempt IS NULL OR v_token IS NULL THEN
                CALL turno.raise_error(31001, CONCAT('row ', v_place, ': a settle names job, attempt and token'));
            END IF;
            CALL turno.settle_row(p_verb, v_job, v_attempt, v_token, v_detail, v_bytes, v_delay, p_worker, v_now, v_status, v_state,
                v_run_at, v_reason);
            SET p_answers = CONCAT(p_answers, IF(p_answers = '', '', ','),
                JSON_ARRAY(v_place, v_job, v_status, v_state, v_run_at, v_reason));
        END IF;
    END WHILE;
    CLOSE v_settles;
    SET p_answers = CONCAT('[', p_answers, ']');
END
