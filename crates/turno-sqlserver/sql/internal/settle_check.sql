-- settle_check: refuses a batch that is too long, lacks a proof or asks for impossible delays.
-- Takes: the batch. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: O2, F5
CREATE OR ALTER PROCEDURE turno.settle_check @settles nvarchar(max)
AS
BEGIN
    EXEC turno.list_check @settles, N'a settle takes', 1, 1000, 5;
    IF EXISTS (SELECT 1 FROM turno.settle_shape(@settles) r WHERE r.job IS NULL OR r.attempt IS NULL OR r.token IS NULL)
        THROW 53101, N'a settle names a job, an attempt and a token', 1;
    IF EXISTS (SELECT 1 FROM OPENJSON(@settles) WITH (retry_ms bigint '$.retry_ms', delay_ms bigint '$.delay_ms') r
               WHERE r.retry_ms NOT BETWEEN -1 AND 31536000000 OR r.delay_ms NOT BETWEEN 0 AND 31536000000)
        THROW 53101, N'a delay has 0..31536000000 ms, and -1 means no retry', 1;
END;
