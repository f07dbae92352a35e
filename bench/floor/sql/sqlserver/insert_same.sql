INSERT INTO turno_floor.same (id, queue, kind, payload, state, rank)
SELECT CONVERT(bigint, i.[value]), CONVERT(varbinary(400), N'turno-bench/x'), CONVERT(varbinary(400), N'noop'),
       CONCAT(N'{"n":', i.[value], N'}'), 'ready', CONVERT(bigint, i.[value])
FROM OPENJSON(@P1) i;
