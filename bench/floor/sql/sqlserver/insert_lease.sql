INSERT INTO turno_floor.lease (id, rank, payload)
SELECT CONVERT(bigint, i.[value]), CONVERT(bigint, i.[value]), CONCAT(N'{"n":', i.[value], N'}') FROM OPENJSON(@P1) i;
