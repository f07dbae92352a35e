-- refused: Incorrect syntax near
-- DELETE is no different.
DELETE TOP (100) FROM turno.finished_job WHERE outcome = 'succeeded' ORDER BY finished_at;
