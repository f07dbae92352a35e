-- refused: Incorrect syntax near
-- The words of other servers.
SELECT id FROM turno.job ORDER BY rank LIMIT 5;
