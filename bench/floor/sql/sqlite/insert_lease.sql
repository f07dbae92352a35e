INSERT INTO lease (id, rank, payload) VALUES (?1, ?1, ?2)
