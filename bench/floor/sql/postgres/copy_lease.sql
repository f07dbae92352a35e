COPY turno_floor.lease (id, rank, payload) FROM STDIN
