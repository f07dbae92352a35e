DELETE FROM lease WHERE id = ?1 AND token = ?2
