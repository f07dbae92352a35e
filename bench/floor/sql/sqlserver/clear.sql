DELETE TOP (4000) FROM turno.each_table WHERE CONVERT(nvarchar(200), queue) LIKE N'turno-bench/%';
