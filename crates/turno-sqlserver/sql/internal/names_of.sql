-- names_of: a JSON array of names as rows.
-- Takes: the array. Returns: per element its place (from 1), the name as a text and as it is stored.
-- Raises: what OPENJSON raises for a text that is no JSON
-- Transaction: any
-- Writes: nothing
-- Locks: none
-- Rules: C3
CREATE OR ALTER FUNCTION turno.names_of(@names nvarchar(max)) RETURNS TABLE
AS
RETURN
    SELECT CONVERT(int, a.[key]) + 1 AS place, a.[value] AS name, CONVERT(varbinary(400), a.[value]) AS queue
    FROM OPENJSON(@names) a;
