-- What the server has counted so far. Rows that were updated or deleted are dead until vacuum comes.
SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint AS wal_bytes,
       (SELECT sum(t.n_tup_upd + t.n_tup_del)::bigint FROM pg_stat_user_tables t WHERE t.schemaname = 'turno') AS dead_rows,
       (SELECT d.xact_commit + d.xact_rollback FROM pg_stat_database d WHERE d.datname = current_database()) AS transactions
