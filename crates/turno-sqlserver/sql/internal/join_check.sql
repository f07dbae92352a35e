-- join_check: refuses to work in a caller's transaction that cannot bear it, before any row is touched.
-- Takes: the operation's name, for the message; whether it writes. Returns: nothing.
-- Raises: TU002
-- Transaction: the caller's
-- Writes: nothing
-- Locks: none
-- Rules: E1, S5, C10, X3
-- DIFFERS: a transaction that began under SNAPSHOT may leave that level and come back to it, but one whose first access to data was
--          ours, at READ COMMITTED, may not (error 3951 in the caller's next statement). Nobody can tell here whether it was, so
--          SNAPSHOT is refused. Every other level is right: the operations read at READ COMMITTED by themselves, and the caller's
--          level is back when they return. Of its own session anybody may see this row.
CREATE OR ALTER PROCEDURE turno.join_check @operation nvarchar(40), @writes bit = 1
AS
BEGIN
    DECLARE @message nvarchar(200);
    IF @writes = 1 AND XACT_STATE() = -1
        SET @message = CONCAT(@operation, N' cannot join a transaction that an error has doomed: roll it back');
    IF EXISTS (SELECT 1 FROM sys.dm_exec_sessions s WHERE s.session_id = @@SPID AND s.transaction_isolation_level = 5)
        SET @message = COALESCE(@message, CONCAT(@operation, N' refuses a transaction at SNAPSHOT: use READ COMMITTED'));
    IF @message IS NOT NULL
        THROW 53102, @message, 1;
END;
