COPY turno_floor.bare (id, queue, kind, payload) FROM STDIN
