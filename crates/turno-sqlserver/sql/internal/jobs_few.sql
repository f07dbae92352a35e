-- jobs_few: a page of the jobs in one state that an index can name, if they are few. Ended jobs have such an index by queue only.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on; rows of a page.
-- Returns: the ids as a JSON array; NULL if more than 10000 jobs are in this state.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V6
CREATE OR ALTER PROCEDURE turno.jobs_few
    @state varchar(20), @queue varbinary(8000), @kind varbinary(8000), @below bigint, @limit bigint,
    @ids nvarchar(max) OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    SET @ids = NULL;
    DECLARE @page TABLE (id bigint NOT NULL PRIMARY KEY);
    DECLARE @queues TABLE (queue varbinary(400) NOT NULL PRIMARY KEY);
    DECLARE @few TABLE (id bigint NOT NULL);
    IF @queue IS NULL AND @state IN ('succeeded', 'dead', 'cancelled')
        RETURN;
    IF @queue IS NULL
        INSERT INTO @queues (queue) SELECT n.queue FROM turno.queue_names() n;
    ELSE
        INSERT INTO @queues (queue) SELECT CONVERT(varbinary(400), @queue) WHERE DATALENGTH(@queue) <= 400;
    IF @state = 'ready'
        INSERT INTO @few (id)
        SELECT TOP (10001) j.id FROM @queues q
        INNER LOOP JOIN turno.unfinished_job j WITH (INDEX(job_ready), FORCESEEK) ON j.queue = q.queue AND j.state = 'ready';
    ELSE IF @state = 'scheduled'
        INSERT INTO @few (id)
        SELECT TOP (10001) j.id FROM @queues q
        INNER LOOP JOIN turno.unfinished_job j WITH (INDEX(job_due), FORCESEEK) ON j.queue = q.queue AND j.state = 'scheduled';
    ELSE IF @state = 'running'
        INSERT INTO @few (id)
        SELECT TOP (10001) j.id FROM turno.unfinished_job j WITH (INDEX(job_lease), FORCESEEK)
        WHERE j.state = 'running' AND j.lease_until > '1970-01-01';
    ELSE
        INSERT INTO @few (id)
        SELECT TOP (10001) f.id FROM @queues q
        INNER LOOP JOIN turno.finished_job f WITH (INDEX(finished_job_by_queue), FORCESEEK) ON f.queue = q.queue AND f.outcome = @state;
    IF 10000 < (SELECT COUNT(*) FROM @few)
        RETURN;
    INSERT INTO @page (id)
    SELECT TOP (@limit) r.id FROM @few w
    CROSS APPLY (SELECT j.id, j.queue, j.kind FROM turno.unfinished_job j WITH (FORCESEEK) WHERE j.id = w.id
                 UNION SELECT f.id, f.queue, f.kind FROM turno.finished_job f WITH (FORCESEEK) WHERE f.id = w.id) r
    WHERE r.id < @below AND (@queue IS NULL OR r.queue = @queue) AND (@kind IS NULL OR r.kind = @kind)
    ORDER BY r.id DESC;
    SET @ids = COALESCE(STUFF((SELECT N',' + CONVERT(nvarchar(20), p.id) FROM @page p FOR XML PATH(N'')), 1, 1, N'[') + N']', N'[]');
END;
