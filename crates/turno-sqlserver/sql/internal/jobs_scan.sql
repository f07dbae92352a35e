-- jobs_scan: a page of the jobs in one state between two ids.
-- Takes: the state; a queue or NULL; a kind or NULL; the first id or NULL; the id above the last; rows of a page.
-- Returns: the ids as a JSON array, and how many.
-- Raises: nothing
-- Transaction: any, at READ COMMITTED
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V2, V6
CREATE OR ALTER PROCEDURE turno.jobs_scan
    @state varchar(20), @queue varbinary(8000), @kind varbinary(8000), @from bigint, @below bigint, @limit bigint,
    @ids nvarchar(max) OUTPUT, @n bigint OUTPUT
AS
BEGIN
    SET NOCOUNT ON;
    DECLARE @page TABLE (id bigint NOT NULL PRIMARY KEY);
    DECLARE @first bigint = COALESCE(@from, 0);
    IF @state IN ('scheduled', 'ready', 'running')
        INSERT INTO @page (id)
        SELECT TOP (@limit) j.id FROM turno.unfinished_job j WITH (INDEX(job_pkey))
        WHERE j.state = @state AND j.id >= @first AND j.id < @below
          AND (@queue IS NULL OR j.queue = @queue) AND (@kind IS NULL OR j.kind = @kind)
        ORDER BY j.id DESC;
    ELSE IF @state = 'succeeded'
        INSERT INTO @page (id)
        SELECT TOP (@limit) f.id FROM turno.finished_job f WITH (INDEX(finished_job_pkey))
        WHERE f.outcome = @state AND f.id >= @first AND f.id < @below
          AND (@queue IS NULL OR f.queue = @queue) AND (@kind IS NULL OR f.kind = @kind)
        ORDER BY f.id DESC;
    ELSE
        INSERT INTO @page (id)
        SELECT TOP (@limit) f.id FROM turno.finished_job f WITH (INDEX(finished_job_trouble), FORCESEEK)
        WHERE f.outcome IN ('dead', 'cancelled') AND f.outcome = @state AND f.id >= @first AND f.id < @below
          AND (@queue IS NULL OR f.queue = @queue) AND (@kind IS NULL OR f.kind = @kind)
        ORDER BY f.id DESC;
    SET @n = (SELECT COUNT(*) FROM @page);
    SET @ids = COALESCE(STUFF((SELECT N',' + CONVERT(nvarchar(20), p.id) FROM @page p FOR XML PATH(N'')), 1, 1, N'[') + N']', N'[]');
END;
