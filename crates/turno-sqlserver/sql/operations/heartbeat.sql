-- heartbeat: extends leases, each never beyond the end of its attempt's time.
-- Takes: proofs as a JSON array of at most 1000 objects with job, attempt, token and started (missing: true); the lease in ms.
-- Returns: per proof its place: held (until when, for how many ms from now, whether a cancel was requested), busy, lost or finished.
-- Raises: TU001, TU002
-- Transaction: joins the caller's, or owns its own
-- Writes: job
-- Locks: job rows in id order; skips those that somebody holds, so one row in an open transaction delays no other lease
-- Rules: O2, H1, H2, H3, H4
CREATE OR ALTER PROCEDURE turno.heartbeat @beats nvarchar(max), @lease_ms bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0), @now datetime2(6) = SYSUTCDATETIME(), @kept nvarchar(max);
    IF @own = 0
        EXEC turno.join_check N'heartbeat';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.list_check @beats, N'a heartbeat takes', 0, 1000, 5;
    IF @lease_ms IS NULL OR @lease_ms NOT BETWEEN 1 AND 86400000
        THROW 53101, N'a lease has 1..86400000 ms', 1;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.heartbeat_keep @beats, @lease_ms, @now, @kept OUTPUT;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT b.place, b.job AS job_id, COALESCE(k.answer, turno.heartbeat_miss(b.job, b.attempt, b.token)) AS answer, k.held_until,
           k.held_for_ms, k.cancel_requested
    FROM turno.settle_shape(@beats) b
    LEFT JOIN OPENJSON(@kept) WITH (job bigint '$.job', attempt bigint '$.attempt', token uniqueidentifier '$.token', answer varchar(8)
        '$.answer', held_until datetime2(6) '$.held_until', held_for_ms bigint '$.held_for_ms', cancel_requested bit '$.cancel_requested') k
        ON k.job = b.job AND k.attempt = b.attempt AND k.token = b.token
    ORDER BY b.place;
END;
