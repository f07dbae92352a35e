INSERT INTO turno_job (id, queue, kind, payload, state, rank, operation_id) VALUES (?1, ?2, ?3, ?4, 'ready', ?1, randomblob(16))
