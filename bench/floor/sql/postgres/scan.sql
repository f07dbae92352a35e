-- A scan that goes on for as long as somebody fetches, on one snapshot: a dump to a slow disk.
DECLARE scan NO SCROLL CURSOR FOR
SELECT f.id, generate_series(1, 1000000000) FROM (SELECT id FROM turno.finished_job UNION ALL SELECT 0) f
