-- One job and the ring that tells of it, in one transaction.
WITH job AS (INSERT INTO turno_floor.lease (id, rank, payload) VALUES ($1, $1, '{"n":1}'))
SELECT pg_notify('turno_floor', '')
