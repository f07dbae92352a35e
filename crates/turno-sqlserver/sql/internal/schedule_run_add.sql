-- schedule_run_add: makes one instant of a schedule a job, unless it is one already.
-- Takes: the schedule's name as it is stored, the instant, now.
-- Returns: the job's id; NULL if the instant had one.
-- Raises: TU001 beyond a limit of the queue; 53107
-- Transaction: joins the caller's, which holds the schedule's row
-- Writes: schedule_run, job
-- Locks: the record of the instant, then the unique key
-- Rules: K1, K5, K6, E5, E11
CREATE OR ALTER PROCEDURE turno.schedule_run_add
    @name varbinary(8000), @at datetime2(6), @now datetime2(6), @job bigint OUTPUT
AS
BEGIN
    DECLARE @queue varbinary(400), @kind varbinary(400), @key varbinary(1024), @payload nvarchar(max), @priority int, @max_attempts bigint,
        @max_run_ms bigint, @bad nvarchar(400), @state varchar(9), @rank bigint, @due_at datetime2(6), @created bit,
        @text nvarchar(20) = LEFT(CONVERT(nvarchar(40), @at, 126), 19) + N'Z';
    SET @job = NULL;
    IF EXISTS (SELECT 1 FROM turno.schedule_run r WITH (READCOMMITTEDLOCK, ROWLOCK) WHERE r.schedule = @name AND r.instant = @at)
        RETURN;
    SELECT @queue = s.queue, @kind = s.kind, @key = s.unique_key, @priority = s.priority, @max_attempts = s.max_attempts,
           @max_run_ms = s.max_run_ms, @payload = REPLACE(s.payload COLLATE Latin1_General_100_BIN2, N'{instant}', @text)
    FROM turno.schedule s WITH (ROWLOCK) WHERE s.name = @name;
    SELECT @bad = c.bad, @due_at = c.due_at, @max_attempts = c.max_attempts, @max_run_ms = c.max_run_ms, @state = c.state, @rank = c.rank
    FROM turno.enqueue_check(CONVERT(nvarchar(200), @queue), CONVERT(nvarchar(200), @kind), 1, @priority, NULL, @max_attempts, @max_run_ms,
        CONVERT(nvarchar(512), @key), NULL, @now) c;
    IF @bad IS NOT NULL
        THROW 53101, @bad, 1;
    EXEC turno.enqueue_row @queue, @kind, @payload, @priority, @due_at, @max_attempts, @max_run_ms, @state, @rank, @key, NULL, NULL, @now,
        @job OUTPUT, @created OUTPUT;
    INSERT INTO turno.schedule_run (schedule, instant, fired_at, job_id) VALUES (@name, @at, @now, @job);
END;
