-- enqueue_keyed: inserts the rows of a checked batch that have a key, one by one in the order of their unique keys. Of the rows with one
-- idempotency key, or one unique key, the first makes the job.
-- Takes: the batch, whether priorities are obeyed, now.
-- Returns: a JSON array of objects with place, id and created, one for each row with a key.
-- Raises: 547, 2628 or 8152 beyond a limit of a column; 53107
-- Transaction: joins the caller's
-- Writes: enqueue_key, job
-- Locks: idempotency keys in key order, then unique keys in key order
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
    DECLARE @keys TABLE (turn int NOT NULL PRIMARY KEY, queue varbinary(400) NOT NULL, once varbinary(1024) NOT NULL);
    INSERT INTO @rows (turn, place, queue, kind, payload, priority, due_at, max_attempts, max_run_ms, state, rank, unique_key,
        idempotency_key, traceparent)
    SELECT ROW_NUMBER() OVER (ORDER BY r.follows, b.queue, b.unique_key, IIF(b.unique_key IS NULL, b.idempotency_key, NULL), r.place), r.place,
           b.queue, CONVERT(varbinary(400), r.kind), r.payload, b.priority, c.due_at, c.max_attempts, c.max_run_ms, c.state, c.rank, b.unique_key,
           b.idempotency_key, turno.traceparent_kept(r.traceparent)
    FROM (SELECT s.*, IIF(s.idempotency_key IS NOT NULL AND ROW_NUMBER() OVER (
                     PARTITION BY CONVERT(varbinary(400), s.queue), CONVERT(varbinary(1024), s.idempotency_key) ORDER BY s.place) > 1, 1, 0)
                     AS follows
          FROM turno.enqueue_shape(@jobs) s) r
    CROSS APPLY (SELECT CONVERT(varbinary(400), r.queue) AS queue, CONVERT(varbinary(1024), r.unique_key) AS unique_key,
                        CONVERT(varbinary(1024), r.idempotency_key) AS idempotency_key,
                        IIF(@prioritized = 1, COALESCE(r.priority, 0), 0) AS priority) b
    CROSS APPLY turno.enqueue_check(r.queue, r.kind, 1, b.priority, r.run_at, r.max_attempts, r.max_run_ms, r.unique_key,
        r.idempotency_key, @now) c
    WHERE r.unique_key IS NOT NULL OR r.idempotency_key IS NOT NULL;
    INSERT INTO @keys (turn, queue, once)
    SELECT ROW_NUMBER() OVER (ORDER BY r.queue, r.idempotency_key), r.queue, r.idempotency_key
    FROM @rows r WHERE r.idempotency_key IS NOT NULL AND EXISTS (SELECT 1 FROM @rows u WHERE u.unique_key IS NOT NULL)
    GROUP BY r.queue, r.idempotency_key;
    WHILE EXISTS (SELECT 1 FROM @keys WHERE turn = @turn)
    BEGIN
        SELECT @queue = queue, @once = once FROM @keys WHERE turn = @turn;
        EXEC turno.key_lock N'i', @queue, @once;
        SET @turn += 1;
    END;
    SET @turn = 1;
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
