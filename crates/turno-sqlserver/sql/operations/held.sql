-- held: the jobs that a token holds: the answer to a claim whose reply was lost.
-- Takes: the token.
-- Returns: jobs as claim does; next_due_in_ms is NULL.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: C5
CREATE OR ALTER PROCEDURE turno.held @token uniqueidentifier
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'held', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    EXEC turno.token_jobs @token, NULL;
END;
