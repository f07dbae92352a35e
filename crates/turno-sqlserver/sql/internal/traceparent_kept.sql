-- traceparent_kept: the header of W3C Trace Context that is kept with a job. Tracing must not make an enqueue fail, so what is no such
-- header is dropped.
-- Takes: any text. Returns: it, or NULL.
-- Raises: nothing
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: E12
CREATE OR ALTER FUNCTION turno.traceparent_kept(@text nvarchar(max)) RETURNS varchar(55)
AS
BEGIN
    -- Dashes in these three places and, since there are 52 other characters, nowhere else.
    RETURN CASE WHEN DATALENGTH(@text) = 110 AND @text COLLATE Latin1_General_100_BIN2 LIKE N'__-%-%-__'
                 AND SUBSTRING(@text, 36, 1) = N'-' AND SUBSTRING(@text, 53, 1) = N'-' AND LEN(REPLACE(@text, N'-', N'')) = 52
                 AND @text COLLATE Latin1_General_100_BIN2 NOT LIKE N'%[^0-9a-f-]%' AND LEFT(@text, 2) <> N'ff'
                 AND SUBSTRING(@text, 4, 32) <> REPLICATE(N'0', 32) AND SUBSTRING(@text, 37, 16) <> REPLICATE(N'0', 16)
                THEN CONVERT(varchar(55), @text) END;
END;
