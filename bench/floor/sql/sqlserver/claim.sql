DECLARE @mine TABLE (id bigint NOT NULL, payload nvarchar(max) NOT NULL);
WITH best AS (
    SELECT TOP (@P1) l.id, l.state, l.token, l.lease_until, l.payload
    FROM turno_floor.lease l WITH (UPDLOCK, READPAST, READCOMMITTEDLOCK, ROWLOCK, INDEX(lease_ready), FORCESEEK)
    WHERE l.state = 'ready' AND l.rank >= 0
    ORDER BY l.rank, l.id)
UPDATE best SET state = 'running', token = @P2, lease_until = DATEADD(second, 30, SYSUTCDATETIME())
OUTPUT inserted.id, inserted.payload INTO @mine (id, payload);
SELECT m.id, m.payload FROM @mine m;
