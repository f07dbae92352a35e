-- refused: error 1047
-- Refused when the statement is compiled.
SELECT id FROM turno.job WITH (HOLDLOCK, READCOMMITTEDLOCK) WHERE id = 1;
