-- key_find: the job that an idempotency key stands for. If there is none, the key is locked for whoever asks.
-- Takes: the queue, the key. Returns: the job's id, or NULL.
-- Raises: 53107
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the key, unless its job is found at once; waits for the transaction that is inserting it
-- Rules: E4
CREATE OR ALTER PROCEDURE turno.key_find @queue varbinary(400), @key varbinary(1024), @id bigint OUTPUT
AS
BEGIN
    DECLARE @look int = 1;
    WHILE @id IS NULL AND @look <= 2
    BEGIN
        IF @look = 2
            EXEC turno.key_lock N'i', @queue, @key;
        -- Lock semantics even where rows have versions: an insert that has not committed must be waited for.
        SELECT @id = k.job_id FROM turno.enqueue_key k WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(enqueue_key_pkey))
        WHERE k.queue = @queue AND k.[key] = @key;
        -- A job that a unique key found may have been removed before its new idempotency key was committed. Such a key stands for
        -- nothing. The first looks take no lock, since whoever holds the job's row may be waiting for this key; only a job that is
        -- in neither table is looked for with a lock, which waits for a removal that may yet roll back.
        IF NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (NOLOCK, FORCESEEK) WHERE j.id = @id)
           AND NOT EXISTS (SELECT 1 FROM turno.finished_job f WITH (NOLOCK, FORCESEEK) WHERE f.id = @id)
           AND NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE j.id = @id)
           AND NOT EXISTS (SELECT 1 FROM turno.finished_job f WITH (READCOMMITTEDLOCK, ROWLOCK, FORCESEEK) WHERE f.id = @id)
            SET @id = NULL;
        SET @look += 1;
    END;
END;
