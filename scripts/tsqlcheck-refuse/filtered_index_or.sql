-- refused: Incorrect syntax near
-- A filter knows AND, IN and comparisons, and no OR.
CREATE INDEX job_waiting ON turno.job (rank) WHERE state = 'ready' OR state = 'scheduled';
