-- batch_check: refuses an unbounded batch of maintenance.
-- Takes: the most rows to touch. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: R1
CREATE OR ALTER PROCEDURE turno.batch_check @limit bigint
AS
BEGIN
    DECLARE @message nvarchar(200) = CONCAT(N'a batch has 1..1000 rows, not ', COALESCE(CONVERT(nvarchar(20), @limit), N'NULL'));
    IF @limit IS NULL OR @limit NOT BETWEEN 1 AND 1000
        THROW 53101, @message, 1;
END;
