-- list_check: refuses a list that is no JSON array, has too few or too many elements, or elements of another kind.
-- Takes: the list; what takes it, for the message; the fewest and most elements; the type of an element as OPENJSON numbers them
--        (1 string, 5 object).
-- Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E9
-- DIFFERS: ISJSON is asked only about lists, never about a payload: before 2022 it calls a scalar no JSON.
CREATE OR ALTER PROCEDURE turno.list_check
    @list nvarchar(max), @what nvarchar(60), @fewest int, @most int, @type int
AS
BEGIN
    DECLARE @message nvarchar(200) = CONCAT(@what, N' a JSON array of ', @fewest, N'..', @most,
        IIF(@type = 5, N' objects', N' names'));
    DECLARE @count int = -1, @strange int = 0;
    IF ISJSON(@list) = 1 AND LEFT(LTRIM(REPLACE(REPLACE(REPLACE(LEFT(@list, 100), NCHAR(9), N' '), NCHAR(10), N' '), NCHAR(13), N' ')), 1) = N'['
        SELECT @count = COUNT(*), @strange = COUNT(IIF(a.[type] = @type, NULL, 1)) FROM OPENJSON(@list) a;
    IF @count NOT BETWEEN @fewest AND @most OR @strange > 0
        THROW 53101, @message, 1;
END;
