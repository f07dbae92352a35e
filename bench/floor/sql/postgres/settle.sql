-- The least end of a job: it is gone.
DELETE FROM turno_floor.lease WHERE id = ANY ($1) AND token = $2
