-- How turno's own table and its indexes were made, to make the same in the floor's file.
SELECT sql FROM sqlite_schema WHERE tbl_name = 'turno_job' AND sql IS NOT NULL ORDER BY type DESC
