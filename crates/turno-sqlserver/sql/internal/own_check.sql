-- own_check: refuses to run inside a transaction of the caller's.
-- Takes: the operation's name, for the message. Returns: nothing.
-- Raises: TU002
-- Transaction: none
-- Writes: nothing
-- Locks: none
-- Rules: C10
CREATE OR ALTER PROCEDURE turno.own_check @operation nvarchar(40)
AS
BEGIN
    DECLARE @message nvarchar(200) = CONCAT(@operation, N' refuses to join a transaction of the caller');
    IF @@TRANCOUNT > 0
        THROW 53102, @message, 1;
END;
