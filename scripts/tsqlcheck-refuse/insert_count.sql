-- refused: not as long as the list
-- Refused when the statement is compiled.
INSERT INTO turno.enqueue_key (queue, [key], job_id) SELECT queue, unique_key FROM turno.job;
