-- refused: error 650
-- Refused at run time by a database with READ_COMMITTED_SNAPSHOT.
SELECT TOP (5) id FROM turno.job WITH (UPDLOCK, READPAST, ROWLOCK) WHERE state = 'ready' ORDER BY rank;
