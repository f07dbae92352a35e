UPDATE turno_floor.lease SET state = 'running', token = UNHEX('{token}'), lease_until = (UNIX_TIMESTAMP() + 30) * 1000000
WHERE id IN ({ids})
