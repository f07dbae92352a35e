-- doctor: what the server's catalogs say about an installation. These are statements and no routine: they run with the rights of
-- whoever asks, and also while the schema is missing or broken.
-- Takes: nothing.
-- Returns: facts; src/doctor judges them.
-- Raises: 1142, 1227 where a right is missing
-- Transaction: none, in a session with limits on waiting for locks
-- Writes: nothing
-- Locks: none but those of reading a catalog
-- Rules: V5

-- statement: server
SELECT VERSION() AS version, CURRENT_USER() AS login, CONNECTION_ID() AS id;

-- statement: settings
SHOW VARIABLES WHERE Variable_name IN ('transaction_isolation', 'tx_isolation', 'binlog_format', 'log_bin', 'sync_binlog', 'sql_mode',
    'max_allowed_packet', 'innodb_flush_log_at_trx_commit', 'innodb_doublewrite', 'innodb_stats_auto_recalc', 'max_connections',
    'max_user_connections', 'read_only');

-- statement: status
SHOW GLOBAL STATUS WHERE Variable_name IN ('Threads_connected', 'Innodb_history_list_length');

-- statement: history
SELECT m.`count` AS n FROM information_schema.innodb_metrics m WHERE m.name = 'trx_rseg_history_len';

-- statement: clock
SELECT TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) AS now_us;

-- statement: routines
SELECT r.routine_name AS name, r.routine_definition AS body, r.security_type AS security, r.sql_mode AS mode, r.definer AS definer
FROM information_schema.routines r WHERE r.routine_schema = 'turno' ORDER BY 1 LIMIT 1000;

-- statement: definer
SELECT COUNT(*) AS n FROM mysql.user u WHERE CONCAT(u.user, '@', u.host) = ?;

-- statement: columns
SELECT c.table_name AS table_name, GROUP_CONCAT(c.column_name ORDER BY c.ordinal_position) AS names
FROM information_schema.columns c WHERE c.table_schema = 'turno' GROUP BY c.table_name;

-- statement: constraints
SELECT c.constraint_name AS name FROM information_schema.check_constraints c WHERE c.constraint_schema = 'turno' LIMIT 1000;

-- statement: triggers
SELECT t.event_object_table AS table_name, t.trigger_name AS name FROM information_schema.triggers t
WHERE t.event_object_schema = 'turno' LIMIT 1000;

-- statement: indexes
SELECT s.table_name AS table_name, s.index_name AS name, CAST(MIN(s.non_unique) AS SIGNED) AS is_plain,
       GROUP_CONCAT(s.column_name ORDER BY s.seq_in_index) AS names
FROM information_schema.statistics s WHERE s.table_schema = 'turno' AND s.index_name <> 'PRIMARY'
GROUP BY s.table_name, s.index_name LIMIT 1000;

-- statement: hidden_on_mysql
SELECT DISTINCT s.table_name AS table_name, s.index_name AS name FROM information_schema.statistics s
WHERE s.table_schema = 'turno' AND s.is_visible = 'NO' LIMIT 1000;

-- statement: hidden_on_mariadb
SELECT DISTINCT s.table_name AS table_name, s.index_name AS name FROM information_schema.statistics s
WHERE s.table_schema = 'turno' AND s.ignored = 'YES' LIMIT 1000;

-- statement: rights
SELECT p.user AS holder, p.routine_name AS object, 'routine' AS what FROM mysql.procs_priv p
WHERE p.db = 'turno' AND p.routine_type = 'PROCEDURE' AND FIND_IN_SET('Execute', p.proc_priv) > 0
UNION ALL
SELECT CONCAT(t.user, '@', t.host), t.table_name, 'table' FROM mysql.tables_priv t WHERE t.db = 'turno'
UNION ALL
SELECT CONCAT(d.user, '@', d.host), d.db, 'database' FROM mysql.db d WHERE REPLACE(d.db, '\\', '') = 'turno'
LIMIT 10000;

-- statement: roles
SELECT e.role_name AS role FROM information_schema.enabled_roles e WHERE e.role_name IS NOT NULL LIMIT 1000;

-- statement: transactions
SELECT t.trx_mysql_thread_id AS id, COALESCE(p.user, '?') AS login, COALESCE(p.host, '?') AS address, COALESCE(p.command, '?') AS state,
       TIMESTAMPDIFF(SECOND, t.trx_started, NOW()) * 1000 AS age_ms
FROM information_schema.innodb_trx t LEFT JOIN information_schema.processlist p ON p.id = t.trx_mysql_thread_id
WHERE t.trx_mysql_thread_id NOT IN (0, CONNECTION_ID()) ORDER BY t.trx_started LIMIT 20;

-- statement: own_connections
SELECT COUNT(*) AS n FROM information_schema.processlist p WHERE p.user = SUBSTRING_INDEX(CURRENT_USER(), '@', 1);

-- statement: schema_version
CALL turno.schema_version();

-- statement: stats
CALL turno.stats(300000);

-- statement: queue_list
CALL turno.queue_list();

-- statement: audit
CALL turno.audit();

-- statement: unhandled
CALL turno.unhandled(?);
