-- refused: no function of SQL Server 2016
-- 2017 has it; the oldest supported server has not.
SELECT STRING_AGG(CONVERT(nvarchar(20), id), N',') FROM turno.job;
