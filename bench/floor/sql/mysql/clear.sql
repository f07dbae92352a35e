DELETE FROM turno.{table} WHERE queue >= 'turno-bench/' AND queue < 'turno-bench0' LIMIT 10000
