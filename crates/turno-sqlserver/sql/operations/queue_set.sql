-- queue_set: changes settings of a queue, or of the installation's defaults. NULL leaves a setting as it is.
-- Takes: the queue (empty: the defaults), then the settings. aging_ms 0 returns to strict priority, run_at_horizon_ms -1 removes
--        that limit, keep_..._ms -1 keeps for ever, receipts_ms 0 turns receipts off. After a change of aging call rerank.
-- Returns: the settings.
-- Raises: TU001, TU002; 547 with the constraint's name
-- Transaction: joins the caller's, or owns its own
-- Writes: queue
-- Locks: the queue's row
-- Rules: P6, P7, P8, E11, C9
CREATE OR ALTER PROCEDURE turno.queue_set
    @queue nvarchar(4000), @description nvarchar(max) = NULL, @aging_ms bigint = NULL, @max_attempts bigint = NULL,
    @max_run_ms bigint = NULL, @retry_base_ms bigint = NULL, @retry_cap_ms bigint = NULL, @max_attempts_limit bigint = NULL,
    @max_run_limit_ms bigint = NULL, @run_at_horizon_ms bigint = NULL, @keep_succeeded_ms bigint = NULL, @keep_cancelled_ms bigint = NULL,
    @keep_dead_ms bigint = NULL, @receipts_ms bigint = NULL
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    DECLARE @own bit = IIF(@@TRANCOUNT = 0, 1, 0);
    IF @own = 0
        EXEC turno.join_check N'queue_set';
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    BEGIN TRY
        IF @own = 1
            BEGIN TRANSACTION;
        EXEC turno.queue_row @queue;
        UPDATE turno.queue WITH (ROWLOCK)
        SET description = COALESCE(@description, description),
            aging_ms = IIF(@aging_ms = 0, NULL, COALESCE(@aging_ms, aging_ms)),
            max_attempts = COALESCE(@max_attempts, max_attempts),
            max_run_ms = COALESCE(@max_run_ms, max_run_ms),
            retry_base_ms = COALESCE(@retry_base_ms, retry_base_ms),
            retry_cap_ms = COALESCE(@retry_cap_ms, retry_cap_ms),
            max_attempts_limit = COALESCE(@max_attempts_limit, max_attempts_limit),
            max_run_limit_ms = COALESCE(@max_run_limit_ms, max_run_limit_ms),
            run_at_horizon_ms = IIF(@run_at_horizon_ms = -1, NULL, COALESCE(@run_at_horizon_ms, run_at_horizon_ms)),
            keep_succeeded_ms = COALESCE(@keep_succeeded_ms, keep_succeeded_ms),
            keep_cancelled_ms = COALESCE(@keep_cancelled_ms, keep_cancelled_ms),
            keep_dead_ms = COALESCE(@keep_dead_ms, keep_dead_ms),
            receipts_ms = COALESCE(@receipts_ms, receipts_ms)
        WHERE queue = CONVERT(varbinary(400), @queue);
        SELECT s.queue, s.description, s.paused_at, s.aging_ms, s.max_attempts, s.max_run_ms, s.retry_base_ms, s.retry_cap_ms, s.max_attempts_limit,
               s.max_run_limit_ms, s.run_at_horizon_ms, s.keep_succeeded_ms, s.keep_cancelled_ms, s.keep_dead_ms, s.receipts_ms
        FROM turno.queue_row_settings(CONVERT(varbinary(400), @queue)) s;
        IF @own = 1
            COMMIT TRANSACTION;
    END TRY
    BEGIN CATCH
        IF @own = 1 AND @@TRANCOUNT > 0
            ROLLBACK TRANSACTION;
        THROW;
    END CATCH;
END;
