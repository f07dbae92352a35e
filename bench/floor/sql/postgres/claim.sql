-- One durable claim: the least that gives each job to one caller only.
UPDATE turno_floor.lease SET state = 'running', token = $1, lease_until = clock_timestamp() + interval '30 seconds'
WHERE id = ANY (ARRAY(SELECT l.id FROM turno_floor.lease l WHERE l.state = 'ready' ORDER BY l.rank, l.id LIMIT $2
                      FOR UPDATE SKIP LOCKED))
RETURNING id, payload
