-- schema_version: the version of this schema and the oldest binary that may use it.
-- Takes: nothing.
-- Returns: both numbers.
-- Raises: TU002
-- Transaction: any but one at SNAPSHOT
-- Writes: nothing
-- Locks: none that lasts
-- Rules: X2
CREATE OR ALTER PROCEDURE turno.schema_version
AS
BEGIN
    SET NOCOUNT, XACT_ABORT, ANSI_PADDING, ANSI_WARNINGS, CONCAT_NULL_YIELDS_NULL ON;
    SET NUMERIC_ROUNDABORT OFF;
    IF @@TRANCOUNT > 0
        EXEC turno.join_check N'schema_version', 0;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    SELECT m.version, m.oldest_binary FROM turno.meta m;
END;
