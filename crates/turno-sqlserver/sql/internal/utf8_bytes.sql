-- utf8_bytes: how many bytes a text has in UTF-8, in which the contract's limits are stated.
-- Takes: the text. Returns: bytes; half of a surrogate pair counts two.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E8, F6
-- DIFFERS: collations with UTF-8 came with 2019, so it counts. A binary collation without supplementary characters makes SUBSTRING
--          and UNICODE see the 16-bit units, whatever the database's own is.
CREATE OR ALTER FUNCTION turno.utf8_bytes(@text nvarchar(max)) RETURNS bigint
AS
BEGIN
    DECLARE @units bigint = DATALENGTH(@text) / 2, @place bigint = 1, @bytes bigint = 0, @unit int;
    -- Plain ASCII, which most names are, needs no look at each character.
    IF PATINDEX(N'%[^' + NCHAR(1) + N'-' + NCHAR(127) + N']%', @text COLLATE Latin1_General_100_BIN2) = 0
        RETURN @units;
    WHILE @place <= @units
    BEGIN
        SET @unit = UNICODE(SUBSTRING(@text COLLATE Latin1_General_100_BIN2, @place, 1));
        SET @bytes += CASE WHEN @unit < 128 THEN 1 WHEN @unit < 2048 OR @unit BETWEEN 55296 AND 57343 THEN 2 ELSE 3 END;
        SET @place += 1;
    END;
    RETURN @bytes;
END;
