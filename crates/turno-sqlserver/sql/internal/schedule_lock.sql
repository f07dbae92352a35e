-- schedule_lock: locks a schedule that must be there.
-- Takes: its name. Returns: nothing.
-- Raises: TU005
-- Transaction: joins the caller's
-- Writes: nothing
-- Locks: the schedule's row
-- Rules: K8
CREATE OR ALTER PROCEDURE turno.schedule_lock @name nvarchar(4000)
AS
BEGIN
    DECLARE @id varbinary(8000) = CONVERT(varbinary(8000), @name), @there int,
        @message nvarchar(400) = CONCAT(N'there is no schedule ''', LEFT(@name, 200), N'''');
    SELECT @there = COUNT(*) FROM turno.schedule s WITH (UPDLOCK, READCOMMITTEDLOCK, ROWLOCK) WHERE s.name = @id;
    IF @there = 0
        THROW 53105, @message, 1;
END;
