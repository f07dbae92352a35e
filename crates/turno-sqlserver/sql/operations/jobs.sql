-- jobs: a page of jobs in one state, newest id first, at a bounded cost: it looks at the newest 10000 jobs, and if those do not fill
--       the page, at all of the state or of the queue's state if those are at most 10000.
-- Takes: the state; a queue or NULL; a kind or NULL; the id below which to go on or NULL; rows of a page.
-- Returns: rows as job does. A last row that has nothing but an id says that the search stopped there: go on below it.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V2, V6, O6
CREATE OR ALTER PROCEDURE turno.jobs
    @state varchar(20), @queue nvarchar(4000) = NULL, @kind nvarchar(4000) = NULL, @before bigint = NULL, @limit bigint = 100
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'jobs', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @below bigint = COALESCE(@before, 9223372036854775807), @stop bigint, @n bigint, @ids nvarchar(max), @few nvarchar(max), @message nvarchar(200);
    DECLARE @queue_name varbinary(8000) = CONVERT(varbinary(8000), @queue), @kind_name varbinary(8000) = CONVERT(varbinary(8000), @kind);
    EXEC turno.batch_check @limit;
    SET @message = CONCAT(COALESCE(@state, 'NULL'), N' is not a state');
    IF COALESCE(@state, '') NOT IN ('scheduled', 'ready', 'running', 'succeeded', 'dead', 'cancelled')
        THROW 53101, @message, 1;
    -- The place comes first: what leaves the table between the two statements then hides nothing else.
    IF @state IN ('scheduled', 'ready', 'running')
        SET @stop = (SELECT j.id FROM turno.unfinished_job j WITH (INDEX(job_pkey)) WHERE j.id < @below
                     ORDER BY j.id DESC OFFSET 9999 ROWS FETCH NEXT 1 ROWS ONLY);
    ELSE IF @state = 'succeeded'
        SET @stop = (SELECT f.id FROM turno.finished_job f WITH (INDEX(finished_job_pkey)) WHERE f.id < @below
                     ORDER BY f.id DESC OFFSET 9999 ROWS FETCH NEXT 1 ROWS ONLY);
    ELSE
        SET @stop = (SELECT f.id FROM turno.finished_job f WITH (INDEX(finished_job_trouble), FORCESEEK)
                     WHERE f.outcome IN ('dead', 'cancelled') AND f.outcome = @state AND f.id < @below
                     ORDER BY f.id DESC OFFSET 9999 ROWS FETCH NEXT 1 ROWS ONLY);
    EXEC turno.jobs_scan @state, @queue_name, @kind_name, @stop, @below, @limit, @ids OUTPUT, @n OUTPUT;
    IF @n = @limit
        SET @stop = NULL;
    IF @stop IS NOT NULL
        EXEC turno.jobs_few @state, @queue_name, @kind_name, @below, @limit, @few OUTPUT;
    IF @few IS NOT NULL
        SELECT @stop = NULL, @ids = @few;
    EXEC turno.job_records @ids, @stop;
END;
