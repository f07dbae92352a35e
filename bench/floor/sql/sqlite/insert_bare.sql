INSERT INTO bare (id, queue, kind, payload) VALUES (?1, ?2, ?3, ?4)
