-- jobs: a page of jobs in one state, newest id first.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V2, O6
CREATE OR ALTER PROCEDURE turno.jobs
    @state varchar(20), @queue nvarchar(4000) = NULL, @kind nvarchar(4000) = NULL, @before bigint = NULL, @limit bigint = 100
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'jobs', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @below bigint = COALESCE(@before, 9223372036854775807), @ids nvarchar(max), @message nvarchar(200);
    DECLARE @queue_name varbinary(8000) = CONVERT(varbinary(8000), @queue), @kind_name varbinary(8000) = CONVERT(varbinary(8000), @kind);
    DECLARE @page TABLE (id bigint NOT NULL PRIMARY KEY);
    EXEC turno.batch_check @limit;
    SET @message = CONCAT(COALESCE(@state, 'NULL'), N' is not a state');
    IF COALESCE(@state, '') NOT IN ('scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled')
        THROW 53101, @message, 1;
    IF @state IN ('scheduled', 'ready', 'running')
        INSERT INTO @page (id)
        SELECT TOP (@limit) j.id FROM turno.unfinished_job j WITH (INDEX(job_pkey))
        WHERE j.state = @state AND j.id < @below
          AND (@queue_name IS NULL OR j.queue = @queue_name) AND (@kind_name IS NULL OR j.kind = @kind_name)
        ORDER BY j.id DESC;
    ELSE IF @state = 'succeeded'
        INSERT INTO @page (id)
        SELECT TOP (@limit) f.id FROM turno.finished_job f WITH (INDEX(finished_job_pkey))
        WHERE f.outcome = @state AND f.id < @below
          AND (@queue_name IS NULL OR f.queue = @queue_name) AND (@kind_name IS NULL OR f.kind = @kind_name)
        ORDER BY f.id DESC;
    ELSE
        INSERT INTO @page (id)
        SELECT TOP (@limit) f.id FROM turno.finished_job f WITH (INDEX(finished_job_trouble), FORCESEEK)
        WHERE f.outcome IN ('dead', 'cancelled') AND f.outcome = @state AND f.id < @below
          AND (@queue_name IS NULL OR f.queue = @queue_name) AND (@kind_name IS NULL OR f.kind = @kind_name)
        ORDER BY f.id DESC;
    SET @ids = COALESCE(STUFF((SELECT N',' + CONVERT(nvarchar(20), p.id) FROM @page p FOR XML PATH(N'')), 1, 1, N'[') + N']', N'[]');
    EXEC turno.job_records @ids;
END;
