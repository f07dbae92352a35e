-- enqueue_keyed: inserts the rows of a checked batch that have a key, one by one in key order.
-- Takes: the batch, whether priorities are obeyed, now.
-- Returns: a JSON array of objects with place, id and created, one for each row with a key.
-- Raises: 547, 2628 or 8152 beyond a limit of a column; 53107
-- Transaction: joins the caller's
-- Writes: enqueue_key, job
-- Locks: idempotency keys and unique keys in key order
-- Rules: E4, E5, E7, E12
CREATE OR ALTER PROCEDURE turno.enqueue_keyed @jobs nvarchar(max), @prioritized bit, @now datetime2(6), @answers nvarchar(max) OUTPUT
AS
BEGIN
    DECLARE @rows TABLE (
        turn int NOT NULL PRIMARY KEY, place int NOT NULL, queue varbinary(400) NOT NULL, kind varbinary(400) NOT NULL,
        payload nvarchar(max) NOT NULL, priority int NOT NULL, due_at datetime2(6) NOT NULL, max_attempts int NOT NULL,
        max_run_ms bigint NOT NULL, state varchar(9) NOT NULL, rank bigint, unique_key varbinary(1024), idempotency_key varbinary(1024),
        traceparent varchar(55), id bigint, created bit);
    DECLARE @turn int = 1, @queue varbinary(400), @kind varbinary(400), @payload nvarchar(max), @priority int, @due_at datetime2(6),
        @max_attempts int, @max_run_ms bigint, @state varchar(9), @rank bigint, @unique varbinary(1024), @once varbinary(1024),
        @trace varchar(55), @id bigint, @created bit;
    INSERT INTO @rows (turn, place, queue, kind, payload, priority, due_at, max_attempts, max_run_ms, state, rank, unique_key,
        idempotency_key, traceparent)
    SELECT ROW_NUMBER() OVER (ORDER BY b.queue, b.idempotency_key, b.unique_key, r.place), r.place, b.queue,
           CONVERT(varbinary(400), r.kind), r.payload, b.priority, c.due_at, c.max_attempts, c.max_run_ms, c.state, c.rank, b.unique_key,
           b.idempotency_key, turno.traceparent_kept(r.traceparent)
    FROM turno.enqueue_shape(@jobs) r
    CROSS APPLY (SELECT CONVERT(varbinary(400), r.queue) AS queue, CONVERT(varbinary(1024), r.unique_key) AS unique_key,
                        CONVERT(varbinary(1024), r.idempotency_key) AS idempotency_key,
                        IIF(@prioritized = 1, COALESCE(r.priority, 0), 0) AS priority) b
    CROSS APPLY turno.enqueue_check(r.queue, r.kind, 1, b.priority, r.run_at, r.max_attempts, r.max_run_ms, r.unique_key,
        r.idempotency_key, @now) c
    WHERE r.unique_key IS NOT NULL OR r.idempotency_key IS NOT NULL;
    WHILE EXISTS (SELECT 1 FROM @rows WHERE turn = @turn)
    BEGIN
        SELECT @queue = queue, @kind = kind, @payload = payload, @priority = priority, @due_at = due_at, @max_attempts = max_attempts,
               @max_run_ms = max_run_ms, @state = state, @rank = rank, @unique = unique_key, @once = idempotency_key,
               @trace = traceparent
        FROM @rows WHERE turn = @turn;
        EXEC turno.enqueue_row @queue, @kind, @payload, @priority, @due_at, @max_attempts, @max_run_ms, @state, @rank, @unique, @once,
            @trace, @now, @id OUTPUT, @created OUTPUT;
        UPDATE @rows SET id = @id, created = @created WHERE turn = @turn;
        SET @turn += 1;
    END;
    SET @answers = COALESCE((SELECT r.place, r.id, r.created FROM @rows r FOR JSON PATH), N'[]');
END;
