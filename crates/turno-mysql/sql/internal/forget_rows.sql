-- forget_rows: removes every record of ended jobs: history, attempts and keys.
-- Takes: job ids as a JSON array. Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the rows of these jobs, in that order of tables
-- Rules: P7, P8
CREATE PROCEDURE turno.forget_rows(IN p_jobs LONGTEXT)
BEGIN
    DELETE f FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (id BIGINT PATH '$')) r
    STRAIGHT_JOIN turno.finished_job f FORCE INDEX (PRIMARY) ON f.id = r.id;
    DELETE a FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (id BIGINT PATH '$')) r
    STRAIGHT_JOIN turno.attempt a FORCE INDEX (PRIMARY) ON a.job_id = r.id;
    DELETE k FROM JSON_TABLE(p_jobs, '$[*]' COLUMNS (id BIGINT PATH '$')) r
    STRAIGHT_JOIN turno.enqueue_key k FORCE INDEX (enqueue_key_job) ON k.job_id = r.id;
END
