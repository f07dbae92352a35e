-- schedule_list: a page of schedules by name.
-- Takes: the name of the one to show or NULL; the name behind which to go on or NULL; rows of a page.
-- Returns: rows of turno.schedule.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V2
CREATE OR ALTER PROCEDURE turno.schedule_list
    @name nvarchar(4000) = NULL, @after nvarchar(4000) = NULL, @limit bigint = 100
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'schedule_list', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @id varbinary(8000) = CONVERT(varbinary(8000), @name), @behind varbinary(8000) = COALESCE(CONVERT(varbinary(8000), @after), 0x);
    DECLARE @page TABLE (name varbinary(400) NOT NULL PRIMARY KEY);
    EXEC turno.batch_check @limit;
    IF @id IS NOT NULL
        INSERT INTO @page (name) SELECT s.name FROM turno.schedule s WITH (FORCESEEK) WHERE s.name = @id;
    ELSE
        INSERT INTO @page (name)
        SELECT TOP (@limit) s.name FROM turno.schedule s WITH (INDEX(schedule_pkey), FORCESEEK) WHERE s.name > @behind ORDER BY s.name;
    SELECT CONVERT(nvarchar(200), s.name) AS name, CONVERT(nvarchar(200), s.cron) AS cron, CONVERT(nvarchar(200), s.zone) AS zone,
           CONVERT(nvarchar(200), s.queue) AS queue, CONVERT(nvarchar(200), s.kind) AS kind, s.payload, s.priority, s.max_attempts,
           s.max_run_ms, CONVERT(nvarchar(512), s.unique_key) AS unique_key, s.missed, s.missed_limit, s.revision, s.done_until, s.next_at,
           s.paused_at, s.last_at, s.last_job, s.created_at, s.updated_at
    FROM @page p JOIN turno.schedule s WITH (FORCESEEK) ON s.name = p.name
    ORDER BY s.name;
END;
