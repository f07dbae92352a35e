-- rerank: gives ready jobs the rank that their queue's aging asks for, after it was changed, one batch a call.
-- Takes: the queue (empty: every queue without settings of its own); the id after which to go on (start with 0); rows to look at.
-- Returns: the id to go on after; NULL when all is done.
-- Raises: TU001, TU002
-- Transaction: owns its own, at READ COMMITTED
-- Writes: job
-- Locks: job rows in id order, waiting for each: a row that was passed over would keep its old rank if its holder rolled back
-- Rules: C9
CREATE OR ALTER PROCEDURE turno.rerank @queue nvarchar(4000), @after bigint, @limit bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    EXEC turno.own_check N'rerank';
    SET IMPLICIT_TRANSACTIONS OFF;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.batch_check @limit;
    DECLARE @name varbinary(400) = CONVERT(varbinary(400), @queue), @until bigint;
    IF @after IS NULL OR @queue IS NULL
        THROW 53101, N'rerank takes a queue and begins after id 0', 1;
    BEGIN TRY
        BEGIN TRANSACTION;
        SELECT @until = MAX(t.id)
        FROM (SELECT TOP (@limit) j.id FROM turno.unfinished_job j WITH (NOLOCK, INDEX(job_pkey), FORCESEEK) WHERE j.id > @after ORDER BY j.id) t;
        WITH wrong AS (
            SELECT TOP (@limit) j.rank, DATEDIFF_BIG(microsecond, '1970-01-01', j.run_at) + j.priority * q.step AS place
            FROM turno.unfinished_job j WITH (UPDLOCK, ROWLOCK, INDEX(job_pkey), FORCESEEK) CROSS APPLY turno.queue_settings(j.queue) q
            WHERE j.id > @after AND j.id <= @until AND j.state = 'ready'
              AND (j.queue = @name OR @name = 0x AND NOT EXISTS (SELECT 1 FROM turno.queue o WHERE o.queue = j.queue))
              AND j.rank <> DATEDIFF_BIG(microsecond, '1970-01-01', j.run_at) + j.priority * q.step
            ORDER BY j.id)
        UPDATE wrong SET rank = place OPTION (MAXDOP 1);
        COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
    SELECT @until AS after_id;
END;
