-- refused: put together at run time
-- No statement and no name is computed (rule X2): ownership chaining ends there.
DECLARE @sql nvarchar(max) = N'SELECT 1 AS one';
EXEC sp_executesql @sql;
