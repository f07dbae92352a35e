-- enqueue_row: inserts one job that has been checked, unless one of its keys stands for another.
-- Takes: the columns of the job as they are stored; now.
-- Returns: the job's id, and whether this call created it.
-- Raises: 547, 2628 or 8152 beyond a limit of a column; 53107
-- Transaction: joins the caller's
-- Writes: enqueue_key, job
-- Locks: the idempotency key, then the unique key
-- Rules: E1, E3, E4, E5, E12
CREATE OR ALTER PROCEDURE turno.enqueue_row
    @queue varbinary(400), @kind varbinary(400), @payload nvarchar(max), @priority int, @due_at datetime2(6), @max_attempts int,
    @max_run_ms bigint, @state varchar(9), @rank bigint, @unique_key varbinary(1024), @idempotency_key varbinary(1024),
    @traceparent varchar(55), @now datetime2(6), @id bigint OUTPUT, @created bit OUTPUT
AS
BEGIN
    SELECT @id = NULL, @created = 0;
    IF @idempotency_key IS NOT NULL
        EXEC turno.key_find @queue, @idempotency_key, @id OUTPUT;
    IF @id IS NOT NULL
        RETURN;
    DECLARE @new bigint = NEXT VALUE FOR turno.job_id;
    IF @unique_key IS NULL
    BEGIN
        INSERT INTO turno.unfinished_job (id, queue, kind, payload, priority, state, rank, run_at, first_due_at, created_at, max_attempts, max_run_ms,
            traceparent)
        VALUES (@new, @queue, @kind, @payload, @priority, @state, @rank, @due_at, @due_at, @now, @max_attempts, @max_run_ms, @traceparent);
        SELECT @id = @new, @created = 1;
    END
    ELSE
        EXEC turno.enqueue_unique @queue, @kind, @payload, @priority, @due_at, @max_attempts, @max_run_ms, @state, @rank, @unique_key,
            @traceparent, @now, @new, @id OUTPUT, @created OUTPUT;
    IF @idempotency_key IS NOT NULL
    BEGIN
        -- Nobody else can be here: key_find has locked the key. A row that is there stands for a job that is gone.
        UPDATE turno.enqueue_key SET job_id = @id WHERE queue = @queue AND [key] = @idempotency_key;
        INSERT INTO turno.enqueue_key (queue, [key], job_id)
        SELECT @queue, @idempotency_key, @id
        WHERE NOT EXISTS (SELECT 1 FROM turno.enqueue_key k WITH (UPDLOCK, ROWLOCK) WHERE k.queue = @queue AND k.[key] = @idempotency_key);
    END;
END;
