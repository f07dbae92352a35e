-- refused: Incorrect syntax near
-- The words of other servers.
UPDATE turno.job SET state = 'ready' WHERE id = 1 RETURNING id;
