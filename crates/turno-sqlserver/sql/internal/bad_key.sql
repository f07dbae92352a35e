-- bad_key: what is wrong with a unique or idempotency key.
-- Takes: which of them; the key. Returns: the fault in words; NULL if there is none, or no key.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E8, E9
CREATE OR ALTER FUNCTION turno.bad_key(@what nvarchar(20), @key nvarchar(max)) RETURNS nvarchar(100)
AS
BEGIN
    RETURN CASE
        WHEN @key IS NULL THEN NULL
        WHEN DATALENGTH(@key) = 0 THEN @what + N' is empty'
        WHEN DATALENGTH(@key) > 1024 THEN @what + N' has more than 512 bytes'
        WHEN DATALENGTH(@key) > 340 AND turno.utf8_bytes(@key) > 512 THEN @what + N' has more than 512 bytes'
        WHEN CHARINDEX(NCHAR(0), @key COLLATE Latin1_General_100_BIN2) > 0 THEN @what + N' contains NUL' END;
END;
