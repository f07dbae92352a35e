-- refused: a page of the ledger of refused results, newest first.
-- Takes: a job or NULL; the line below which to go on or NULL; rows of a page.
-- Returns: lines of the ledger.
-- Raises: TU001, TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: S7, V2
CREATE OR ALTER PROCEDURE turno.refused
    @job bigint = NULL, @before bigint = NULL, @limit bigint = 100
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'refused', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    DECLARE @below bigint = COALESCE(@before, 9223372036854775807);
    DECLARE @page TABLE (id bigint NOT NULL PRIMARY KEY);
    EXEC turno.batch_check @limit;
    IF @job IS NULL
        INSERT INTO @page (id)
        SELECT TOP (@limit) r.id FROM turno.refused_result r WITH (INDEX(refused_pkey), FORCESEEK) WHERE r.id < @below ORDER BY r.id DESC;
    ELSE
        INSERT INTO @page (id)
        SELECT TOP (@limit) r.id FROM turno.refused_result r WITH (INDEX(refused_once), FORCESEEK) WHERE r.job_id = @job AND r.id < @below
        ORDER BY r.id DESC;
    SELECT r.id, r.job_id, r.attempt, r.owner_attempt, r.times, r.first_at, r.last_at, r.verb, CONVERT(nvarchar(200), r.queue) AS queue,
           r.state, CONVERT(nvarchar(200), r.worker) AS worker, CONVERT(nvarchar(200), r.owner) AS owner, r.reason, r.detail
    FROM @page p JOIN turno.refused_result r WITH (FORCESEEK) ON r.id = p.id
    ORDER BY r.id DESC;
END;
