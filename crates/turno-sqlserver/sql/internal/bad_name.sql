-- bad_name: what is wrong with the name of a queue, kind or worker.
-- Takes: what it is the name of; the name. Returns: the fault in words; NULL if there is none.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E8, E9
CREATE OR ALTER FUNCTION turno.bad_name(@what nvarchar(20), @name nvarchar(max)) RETURNS nvarchar(100)
AS
BEGIN
    RETURN CASE
        WHEN @name IS NULL THEN @what + N' is NULL'
        WHEN DATALENGTH(@name) = 0 THEN @what + N' is empty'
        WHEN DATALENGTH(@name) > 400 THEN @what + N' has more than 200 bytes'
        WHEN DATALENGTH(@name) > 132 AND turno.utf8_bytes(@name) > 200 THEN @what + N' has more than 200 bytes'
        WHEN PATINDEX(N'%[' + NCHAR(0) + N'-' + NCHAR(31) + NCHAR(127) + N']%', @name COLLATE Latin1_General_100_BIN2) > 0
            THEN @what + N' contains a control character' END;
END;
