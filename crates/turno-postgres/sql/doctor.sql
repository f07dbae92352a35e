-- doctor: what the server's catalogs say about an installation. These are statements and no routine: they run with the rights of
-- whoever asks, and also while the schema is missing or broken.
-- Takes: nothing.
-- Returns: facts; src/doctor judges them.
-- Raises: 42501 where a right is missing
-- Transaction: each its own, read-only, with a limit on its time and on waiting for locks
-- Writes: nothing
-- Locks: none but those of reading a catalog
-- Rules: V5

-- statement: server
SELECT current_setting('server_version_num')::bigint AS version_num, current_setting('server_version') AS version,
       pg_is_in_recovery() AS is_standby, current_setting('default_transaction_read_only') = 'on' AS is_read_only,
       current_setting('default_transaction_isolation') AS isolation, current_user::text AS login,
       EXISTS (SELECT FROM pg_namespace n JOIN pg_class c ON c.relnamespace = n.oid
               WHERE n.nspname = 'turno' AND c.relname = 'meta') AS is_installed,
       EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'turno' AND pg_has_role(n.nspowner, 'USAGE')) AS is_owner,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_sessions;

-- statement: settings
SELECT s.name, s.setting FROM pg_settings s
WHERE s.name IN ('fsync', 'full_page_writes', 'synchronous_commit', 'autovacuum', 'track_counts');

-- statement: clock
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now_us;

-- statement: process
SELECT pg_backend_pid()::bigint AS id;

-- statement: routines
SELECT p.proname::text AS name, p.prosrc AS body, p.prosecdef AS is_definer,
       coalesce((SELECT string_agg(c.setting, E'\n' ORDER BY c.setting) FROM unnest(p.proconfig) c (setting)), '') AS settings
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
WHERE n.nspname = 'turno' ORDER BY 1 LIMIT 1000;

-- statement: columns
SELECT c.relname::text AS table_name, string_agg(a.attname || ' ' || replace(format_type(a.atttypid, a.atttypmod),
       'timestamp with time zone', 'timestamptz'), ', ' ORDER BY a.attnum) AS columns
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace JOIN pg_attribute a ON a.attrelid = c.oid
WHERE n.nspname = 'turno' AND c.relkind IN ('r', 'p') AND a.attnum > 0 AND NOT a.attisdropped
GROUP BY 1 ORDER BY 1 LIMIT 1000;

-- statement: constraints
SELECT c.relname::text AS table_name, o.conname::text AS name, o.convalidated AS is_valid
FROM pg_constraint o JOIN pg_class c ON c.oid = o.conrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'turno' ORDER BY 1, 2 LIMIT 1000;

-- statement: triggers
SELECT c.relname::text AS table_name, t.tgname::text AS name
FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'turno' AND NOT t.tgisinternal ORDER BY 1, 2 LIMIT 1000;

-- statement: indexes
SELECT c.relname::text AS table_name, x.relname::text AS name, i.indisvalid AND i.indisready AND i.indislive AS is_usable,
       i.indisunique AS is_unique, coalesce(pg_get_expr(i.indpred, i.indrelid), '') AS predicate,
       (SELECT string_agg(pg_get_indexdef(i.indexrelid, k, false), ', ' ORDER BY k) FROM generate_series(1, i.indnkeyatts) k) AS columns
FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'turno' ORDER BY 1, 2 LIMIT 1000;

-- statement: rights
SELECT p.proname::text AS object, coalesce(r.rolname::text, 'PUBLIC') AS holder, 'routine' AS what
FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
CROSS JOIN LATERAL aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = 'turno' AND a.grantee <> p.proowner AND a.privilege_type = 'EXECUTE'
UNION ALL
SELECT c.relname::text, coalesce(r.rolname::text, 'PUBLIC'), 'table'
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL aclexplode(c.relacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = 'turno' AND a.grantee <> c.relowner
UNION ALL
SELECT 'schema', coalesce(r.rolname::text, 'PUBLIC'), 'usage'
FROM pg_namespace n CROSS JOIN LATERAL aclexplode(n.nspacl) a LEFT JOIN pg_roles r ON r.oid = a.grantee
WHERE n.nspname = 'turno' AND a.privilege_type = 'USAGE'
LIMIT 10000;

-- statement: roles
SELECT substr(r.rolname::text, length('turno_') + 1) AS role, pg_has_role(r.oid, 'USAGE') AS is_member
FROM pg_roles r WHERE r.rolname IN ('turno_producer', 'turno_worker', 'turno_scheduler', 'turno_operator', 'turno_viewer');

-- statement: tables
SELECT c.relname::text AS name, c.reltuples::bigint AS row_guess, c.relpersistence = 'u' AS is_unlogged,
       coalesce(array_to_string(c.reloptions, ' '), '') AS options, s.n_live_tup AS live, s.n_dead_tup AS dead,
       s.last_analyze IS NULL AND s.last_autoanalyze IS NULL AS is_never_analyzed,
       (extract(epoch FROM clock_timestamp() - greatest(s.last_vacuum, s.last_autovacuum)) * 1000)::bigint AS vacuum_age_ms
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace LEFT JOIN pg_stat_all_tables s ON s.relid = c.oid
WHERE n.nspname = 'turno' AND c.relkind = 'r' ORDER BY 1 LIMIT 1000;

-- statement: locks
SELECT l.pid::bigint AS pid, c.relname::text AS table_name, l.mode, coalesce(a.usename::text, '?') AS login,
       coalesce(a.application_name, '') AS application, coalesce(a.state, '') AS state,
       (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS age_ms
FROM pg_locks l JOIN pg_class c ON c.oid = l.relation JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_stat_activity a ON a.pid = l.pid
WHERE n.nspname = 'turno' AND l.granted AND l.pid <> pg_backend_pid()
  AND l.database = (SELECT d.oid FROM pg_database d WHERE d.datname = current_database())
  AND l.mode IN ('ShareLock', 'ShareRowExclusiveLock', 'ExclusiveLock', 'AccessExclusiveLock')
ORDER BY age_ms DESC NULLS LAST LIMIT 20;

-- statement: transactions
SELECT a.pid::bigint AS pid, coalesce(a.usename::text, '?') AS login, coalesce(a.application_name, '') AS application,
       coalesce(host(a.client_addr), 'local') AS address, coalesce(a.state, '') AS state,
       (extract(epoch FROM clock_timestamp() - a.xact_start) * 1000)::bigint AS age_ms
FROM pg_stat_activity a
WHERE a.pid <> pg_backend_pid() AND a.xact_start IS NOT NULL AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
  AND a.backend_type NOT IN ('autovacuum worker', 'walsender') AND a.datname = current_database()
ORDER BY a.xact_start LIMIT 20;

-- statement: oldest_transaction
SELECT max((extract(epoch FROM clock_timestamp() - t.begun_at) * 1000)::bigint) AS age_ms,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_sessions
FROM (SELECT a.xact_start AS begun_at FROM pg_stat_activity a
      WHERE a.pid <> pg_backend_pid() AND (a.backend_xmin IS NOT NULL OR a.backend_xid IS NOT NULL)
        AND a.backend_type NOT IN ('autovacuum worker', 'walsender') AND a.datname = current_database()
      UNION ALL
      SELECT p.prepared FROM pg_prepared_xacts p WHERE p.database = current_database()) t;

-- statement: prepared
SELECT p.gid, p.owner::text AS login, (extract(epoch FROM clock_timestamp() - p.prepared) * 1000)::bigint AS age_ms
FROM pg_prepared_xacts p WHERE p.database = current_database() ORDER BY p.prepared LIMIT 20;

-- statement: slots
SELECT s.slot_name::text AS name, s.slot_type, s.active AS is_active, age(s.xmin)::bigint AS held_back,
       coalesce(pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END,
           s.restart_lsn), 0)::bigint AS log_bytes
FROM pg_replication_slots s ORDER BY s.active, age(s.xmin) DESC NULLS LAST LIMIT 20;

-- statement: standbys
SELECT coalesce(r.application_name, '') AS name, coalesce(host(r.client_addr), 'local') AS address, age(r.backend_xmin)::bigint AS held_back
FROM pg_stat_replication r WHERE r.backend_xmin IS NOT NULL ORDER BY 3 DESC LIMIT 20;

-- statement: connections
SELECT (SELECT sum(d.numbackends) FROM pg_stat_database d)::bigint AS used,
       (current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
        - coalesce(current_setting('reserved_connections', true)::bigint, 0)) AS max,
       (SELECT d.numbackends FROM pg_stat_database d WHERE d.datname = current_database())::bigint AS database_used,
       (SELECT d.datconnlimit FROM pg_database d WHERE d.datname = current_database())::bigint AS database_max,
       (SELECT count(*) FROM pg_stat_activity a WHERE a.usename = current_user) AS login_used,
       (SELECT r.rolconnlimit FROM pg_roles r WHERE r.rolname = current_user)::bigint AS login_max;

-- statement: schema_version
SELECT v.version, v.oldest_binary FROM turno.schema_version() v;

-- statement: stats
SELECT * FROM turno.stats(300000);

-- statement: queue_list
SELECT * FROM turno.queue_list();

-- statement: audit
SELECT * FROM turno.audit();

-- statement: unhandled
SELECT * FROM turno.unhandled($1);
