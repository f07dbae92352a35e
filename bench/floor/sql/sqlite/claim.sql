UPDATE lease SET state = 'running', token = ?1, lease_until = unixepoch() + 30
WHERE id IN (SELECT id FROM lease WHERE state = 'ready' ORDER BY rank, id LIMIT ?2)
RETURNING id, payload
