COPY turno_floor.same (id, queue, kind, payload, state, rank) FROM STDIN
