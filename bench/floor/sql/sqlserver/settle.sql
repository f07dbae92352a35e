DELETE l FROM OPENJSON(@P1) i INNER LOOP JOIN turno_floor.lease l WITH (ROWLOCK, FORCESEEK) ON l.id = CONVERT(bigint, i.[value])
WHERE l.token = @P2;
