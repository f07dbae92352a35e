INSERT INTO turno_floor.bare (id, queue, kind, payload)
SELECT CONVERT(bigint, i.[value]), CONVERT(varbinary(400), N'turno-bench/x'), CONVERT(varbinary(400), N'noop'),
       CONCAT(N'{"n":', i.[value], N'}')
FROM OPENJSON(@P1) i;
