-- forget_rows: removes every record of ended jobs: history, attempts and keys.
-- Takes: job ids as a JSON array. Returns: nothing.
-- Raises: nothing
-- Transaction: joins the caller's
-- Writes: finished_job, attempt, enqueue_key
-- Locks: the rows of these jobs in id order, in that order of tables
-- Rules: P7, P8
CREATE OR ALTER PROCEDURE turno.forget_rows @jobs nvarchar(max)
AS
BEGIN
    DECLARE @ids TABLE (id bigint NOT NULL PRIMARY KEY);
    INSERT INTO @ids (id) SELECT DISTINCT CONVERT(bigint, a.[value]) FROM OPENJSON(@jobs) a;
    DELETE f FROM @ids i INNER LOOP JOIN turno.finished_job f WITH (ROWLOCK, FORCESEEK) ON f.id = i.id;
    DELETE a FROM @ids i INNER LOOP JOIN turno.attempt a WITH (ROWLOCK, FORCESEEK) ON a.job_id = i.id;
    DELETE k FROM @ids i INNER LOOP JOIN turno.enqueue_key k WITH (ROWLOCK, INDEX(enqueue_key_job), FORCESEEK) ON k.job_id = i.id;
END;
