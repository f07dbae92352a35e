-- cut_error: an error text as it is stored: at most 8192 bytes of UTF-8, cut at a character boundary, NUL shown as U+FFFD.
-- Takes: the text, its length in bytes before a client cut it or NULL. Returns: both as they are stored.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: F6
CREATE OR ALTER PROCEDURE turno.cut_error @error nvarchar(max) OUTPUT, @error_bytes bigint OUTPUT
AS
BEGIN
    DECLARE @bytes bigint;
    IF @error IS NULL
        RETURN;
    IF @error_bytes IS NULL
        SET @error_bytes = turno.utf8_bytes(@error);
    -- LEN does not count spaces at the end, and in a database whose collation knows surrogates LEFT counts pairs as one.
    SET @error = REPLACE(SUBSTRING(@error COLLATE Latin1_General_100_BIN2, 1, 8192), NCHAR(0), NCHAR(65533));
    SET @bytes = turno.utf8_bytes(@error);
    -- A unit has at most three bytes, so removing a third of the excess never removes too much.
    WHILE @bytes > 8192
    BEGIN
        SET @error = SUBSTRING(@error COLLATE Latin1_General_100_BIN2, 1, DATALENGTH(@error) / 2 - (@bytes - 8192 + 2) / 3);
        SET @bytes = turno.utf8_bytes(@error);
    END;
    -- Never half of a pair.
    IF UNICODE(SUBSTRING(@error COLLATE Latin1_General_100_BIN2, DATALENGTH(@error) / 2, 1)) BETWEEN 55296 AND 56319
        SET @error = SUBSTRING(@error COLLATE Latin1_General_100_BIN2, 1, DATALENGTH(@error) / 2 - 1);
END;
