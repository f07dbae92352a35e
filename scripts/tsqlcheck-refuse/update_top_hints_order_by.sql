-- refused: Incorrect syntax near
-- The same with the hints that such articles show.
UPDATE TOP (@limit) turno.job WITH (UPDLOCK, READPAST, ROWLOCK) SET state = 'running' OUTPUT inserted.id WHERE state = 'ready' ORDER BY rank;
