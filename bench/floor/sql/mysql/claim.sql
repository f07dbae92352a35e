SELECT l.id, l.payload FROM turno_floor.lease l FORCE INDEX (lease_ready) WHERE l.state = 'ready' ORDER BY l.`rank`, l.id LIMIT {limit}
FOR UPDATE SKIP LOCKED
