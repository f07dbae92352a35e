-- refused: Incorrect syntax near
-- The words of other servers.
SELECT id FROM turno.job WHERE state = 'ready' ORDER BY rank OFFSET 0 ROWS FETCH NEXT 5 ROWS ONLY FOR UPDATE SKIP LOCKED;
