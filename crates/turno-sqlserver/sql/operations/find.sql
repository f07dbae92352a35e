-- find: a page of the jobs that have a unique key, and of those that an idempotency key stands for, newest id first, in any state.
-- Takes: the key; a queue or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does. A last row that has nothing but an id says that the search stopped there, after 10000 ended jobs of other
--          queues with this key: go on below it.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V2, V6, V7, O6
CREATE OR ALTER PROCEDURE turno.find
    @key nvarchar(4000), @queue nvarchar(4000) = NULL, @before bigint = NULL, @limit bigint = 100
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'find', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @below bigint = COALESCE(@before, 9223372036854775807), @stop bigint, @ids nvarchar(max);
    DECLARE @queue_name varbinary(8000) = CONVERT(varbinary(8000), @queue), @wanted varbinary(8000) = CONVERT(varbinary(8000), @key);
    DECLARE @queues TABLE (queue varbinary(400) NOT NULL PRIMARY KEY);
    DECLARE @page TABLE (id bigint NOT NULL PRIMARY KEY);
    EXEC turno.batch_check @limit;
    IF @queue IS NULL
        INSERT INTO @queues (queue) SELECT n.queue FROM turno.queue_names() n;
    ELSE
    BEGIN
        INSERT INTO @queues (queue) SELECT CONVERT(varbinary(400), @queue_name) WHERE DATALENGTH(@queue_name) <= 400;
        -- The place comes first: what leaves the table between the two statements then hides nothing else.
        SET @stop = (SELECT f.id FROM turno.finished_job f WITH (INDEX(finished_job_key), FORCESEEK)
                     WHERE f.unique_key = @wanted AND f.unique_key IS NOT NULL AND f.id < @below
                     ORDER BY f.id DESC OFFSET 9999 ROWS FETCH NEXT 1 ROWS ONLY);
    END;
    INSERT INTO @page (id)
    SELECT TOP (@limit) c.id FROM (
        SELECT e.id FROM (
            SELECT TOP (@limit) f.id FROM turno.finished_job f WITH (INDEX(finished_job_key), FORCESEEK)
            WHERE f.unique_key = @wanted AND f.unique_key IS NOT NULL AND f.id < @below AND f.id >= COALESCE(@stop, 0)
              AND (@queue_name IS NULL OR f.queue = @queue_name)
            ORDER BY f.id DESC) e
        UNION
        SELECT k.job_id FROM @queues q
        INNER LOOP JOIN turno.enqueue_key k WITH (INDEX(enqueue_key_pkey), FORCESEEK) ON k.queue = q.queue AND k.[key] = @wanted
        UNION
        SELECT j.id FROM @queues q
        INNER LOOP JOIN turno.unfinished_job j WITH (INDEX(job_unique), FORCESEEK)
            ON j.queue = q.queue AND j.unique_key = @wanted AND j.unique_key IS NOT NULL) c
    WHERE c.id < @below AND c.id >= COALESCE(@stop, 0)
    ORDER BY c.id DESC;
    IF @limit = (SELECT COUNT(*) FROM @page)
        SET @stop = NULL;
    SET @ids = COALESCE(STUFF((SELECT N',' + CONVERT(nvarchar(20), p.id) FROM @page p FOR XML PATH(N'')), 1, 1, N'[') + N']', N'[]');
    EXEC turno.job_records @ids, @stop;
END;
