-- claim_check: refuses what a claim cannot mean.
-- Takes: the arguments of claim. Returns: nothing.
-- Raises: TU001
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C4
CREATE OR ALTER PROCEDURE turno.claim_check
    @queues nvarchar(max), @worker nvarchar(4000), @limit bigint, @lease_ms bigint, @token uniqueidentifier, @from_ranks nvarchar(max)
AS
BEGIN
    DECLARE @bad nvarchar(200);
    EXEC turno.list_check @queues, N'a claim names its queues as', 1, 100, 1;
    SELECT TOP (1) @bad = turno.bad_name(N'queue', n.name) FROM turno.names_of(@queues) n
    WHERE turno.bad_name(N'queue', n.name) IS NOT NULL;
    SET @bad = COALESCE(@bad, turno.bad_name(N'worker', @worker), CASE
        WHEN @limit IS NULL OR @limit NOT BETWEEN 1 AND 1000 THEN N'a claim takes 1..1000 jobs'
        WHEN @lease_ms IS NULL OR @lease_ms NOT BETWEEN 1 AND 86400000 THEN N'a lease has 1..86400000 ms'
        WHEN @token IS NULL OR @token = '00000000-0000-0000-0000-000000000000' THEN N'the nil UUID is not a token'
        WHEN @from_ranks IS NOT NULL AND (ISJSON(@from_ranks) = 0 OR @from_ranks NOT LIKE N'[[]%') THEN N'from_ranks is a JSON array' END);
    IF @bad IS NULL AND @from_ranks IS NOT NULL
       AND (SELECT COUNT(*) FROM OPENJSON(@from_ranks)) <> (SELECT COUNT(*) FROM OPENJSON(@queues))
        SET @bad = N'from_ranks has another length than queues';
    IF @bad IS NOT NULL
        THROW 53101, @bad, 1;
END;
