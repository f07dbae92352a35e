-- settle_answers: the answers of settle_rows as the rows that every settle of a batch returns.
-- Takes: the answers. Returns: place, job_id, status, state, run_at, reason.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: S3
CREATE PROCEDURE turno.settle_answers(IN p_answers LONGTEXT)
BEGIN
    SELECT r.place, r.job_id, r.status, r.state, r.run_at, r.reason
    FROM JSON_TABLE(p_answers, '$[*]' COLUMNS (
        place BIGINT PATH '$[0]', job_id BIGINT PATH '$[1]', status VARCHAR(8) PATH '$[2]', state VARCHAR(9) PATH '$[3]',
        run_at BIGINT PATH '$[4]', reason TEXT CHARACTER SET utf8mb4 PATH '$[5]')) r
    ORDER BY r.place;
END
