-- queue_list: the settings of the installation first, then of every queue that has settings or rows, by name.
-- Takes: nothing.
-- Returns: rows of turno.queue; a queue without settings of its own shows the installation's.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: P6
CREATE OR ALTER PROCEDURE turno.queue_list
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'queue_list', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT s.queue, s.description, s.paused_at, s.aging_ms, s.max_attempts, s.max_run_ms, s.retry_base_ms, s.retry_cap_ms,
           s.max_attempts_limit, s.max_run_limit_ms, s.run_at_horizon_ms, s.keep_succeeded_ms, s.keep_cancelled_ms, s.keep_dead_ms,
           s.receipts_ms
    FROM (SELECT 0x AS queue UNION ALL SELECT n.queue FROM turno.queue_names() n) n
    CROSS APPLY turno.queue_row_settings(n.queue) s
    ORDER BY s.queue COLLATE Latin1_General_100_BIN2;
END;
