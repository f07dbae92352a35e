-- refused: error 319
-- Refused by the server; both parsers let it pass.
DECLARE @n int = 1
WITH best AS (SELECT TOP (@n) id FROM turno.job ORDER BY rank) SELECT id FROM best;
