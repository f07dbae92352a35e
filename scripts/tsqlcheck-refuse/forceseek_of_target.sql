-- refused: FORCESEEK with an index
-- The server refuses it for a table that a statement changes, also through a CTE; no parser does.
WITH best AS (SELECT TOP (1) id, state FROM turno.unfinished_job WITH (FORCESEEK (job_ready (queue))) WHERE queue = 0x61 ORDER BY rank)
UPDATE best SET state = 'running';
