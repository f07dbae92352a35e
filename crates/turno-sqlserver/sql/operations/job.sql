-- job: everything known about one job, wherever it is in its life.
-- Takes: the job.
-- Returns: one row, or none.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: O6, V2
CREATE OR ALTER PROCEDURE turno.job @job bigint
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'job', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @ids nvarchar(30) = CONCAT(N'[', @job, N']');
    EXEC turno.job_records @ids, NULL;
END;
