-- schedule_due: the schedules whose time has come, longest due first. It only looks: see schedule_fire.
-- Takes: the most rows.
-- Returns: per schedule what a calendar needs, with the database's now and in how many ms the next one is due that is not yet;
--          one row without a schedule if none is due.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts; skips what somebody holds, which somebody is just firing or changing
-- Rules: K2
CREATE OR ALTER PROCEDURE turno.schedule_due @limit bigint = 100
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'schedule_due', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @now datetime2(6) = SYSUTCDATETIME(), @next datetime2(6);
    EXEC turno.batch_check @limit;
    SELECT TOP (1) @next = s.next_at FROM turno.schedule s WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(schedule_due), FORCESEEK)
    WHERE s.paused_at IS NULL AND s.next_at > @now ORDER BY s.next_at;
    SELECT @now AS now, (DATEDIFF_BIG(microsecond, @now, @next) + 999) / 1000 AS next_in_ms, CONVERT(nvarchar(200), d.name) AS name,
           CONVERT(nvarchar(200), d.cron) AS cron, CONVERT(nvarchar(200), d.zone) AS zone, d.missed, d.missed_limit, d.revision,
           d.done_until, d.next_at
    FROM (SELECT 1 AS one) o
    OUTER APPLY (SELECT TOP (@limit) s.name, s.cron, s.zone, s.missed, s.missed_limit, s.revision, s.done_until, s.next_at
                 FROM turno.schedule s WITH (READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(schedule_due), FORCESEEK)
                 WHERE s.paused_at IS NULL AND s.next_at <= @now ORDER BY s.next_at, s.name) d
    ORDER BY d.next_at, d.name
    OPTION (MAXDOP 1);
END;
