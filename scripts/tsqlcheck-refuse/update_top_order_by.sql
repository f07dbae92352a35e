-- refused: Incorrect syntax near
-- The claim of many articles: UPDATE takes TOP, but no ORDER BY.
UPDATE TOP (5) turno.job SET state = 'running' WHERE state = 'ready' ORDER BY rank, id;
