-- enqueue_unique: inserts a job that has a unique key, unless an unfinished job has it.
-- Takes: the columns of the new job, now, its id.
-- Returns: the id of the job that has the key, and whether this call created it.
-- Raises: 53107; 547, 2628 or 8152 beyond a limit of a column
-- Transaction: joins the caller's
-- Writes: job
-- Locks: the key, unless its holder is found at once; waits for the transaction that is inserting or ending the holder
-- Rules: E5, E12
CREATE OR ALTER PROCEDURE turno.enqueue_unique
    @queue varbinary(400), @kind varbinary(400), @payload nvarchar(max), @priority int, @due_at datetime2(6), @max_attempts int,
    @max_run_ms bigint, @state varchar(9), @rank bigint, @unique_key varbinary(1024), @traceparent varchar(55), @now datetime2(6), @new bigint,
    @id bigint OUTPUT, @created bit OUTPUT
AS
BEGIN
    -- The lock of the index entry is given back at once: whoever completes the holder must not wait for this caller's transaction.
    SELECT @id = j.id FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(job_unique))
    WHERE j.queue = @queue AND j.unique_key = @unique_key AND j.unique_key IS NOT NULL;
    WHILE @id IS NULL
    BEGIN
        EXEC turno.key_lock N'u', @queue, @unique_key;
        INSERT INTO turno.unfinished_job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, max_attempts, max_run_ms,
            unique_key, traceparent)
        SELECT @new, @queue, @kind, @payload, @priority, @state, @rank, @due_at, @due_at, @now, @max_attempts, @max_run_ms, @unique_key,
               @traceparent
        WHERE NOT EXISTS (SELECT 1 FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(job_unique))
                          WHERE j.queue = @queue AND j.unique_key = @unique_key AND j.unique_key IS NOT NULL);
        IF @@ROWCOUNT = 1
            SELECT @id = @new, @created = 1;
        ELSE
            -- The holder may end between the two statements; then the key is free, and nobody else can take it.
            SELECT @id = j.id FROM turno.unfinished_job j WITH (READCOMMITTEDLOCK, ROWLOCK, INDEX(job_unique))
            WHERE j.queue = @queue AND j.unique_key = @unique_key AND j.unique_key IS NOT NULL;
    END;
END;
