DELETE FROM turno_floor.lease WHERE id IN ({ids}) AND token = UNHEX('{token}')
