-- doctor: what the server's catalogs say about an installation. These are statements and no routine: they run with the rights of
-- whoever asks, and also while the schema is missing or broken.
-- Takes: nothing.
-- Returns: facts; src/doctor judges them.
-- Raises: 229, 297, 300 where a right is missing
-- Transaction: each its own, at READ COMMITTED, with a limit on waiting for locks
-- Writes: nothing
-- Locks: none that lasts
-- Rules: V5

-- statement: server
SELECT CONVERT(nvarchar(128), SERVERPROPERTY('ProductVersion')) AS version, CONVERT(nvarchar(128), SERVERPROPERTY('Edition')) AS edition,
       CONVERT(nvarchar(128), DATABASEPROPERTYEX(DB_NAME(), 'Updateability')) AS updateability, SUSER_SNAME() AS login_name,
       d.is_read_committed_snapshot_on, CONVERT(bit, IIF(d.snapshot_isolation_state = 1, 1, 0)) AS is_snapshot_allowed,
       CONVERT(bigint, d.compatibility_level) AS compatibility, CONVERT(bigint, d.delayed_durability) AS delayed_durability,
       CONVERT(bigint, d.page_verify_option) AS page_verify, d.is_auto_create_stats_on, d.is_auto_update_stats_on,
       CONVERT(bit, COALESCE(HAS_PERMS_BY_NAME(NULL, NULL, 'VIEW SERVER STATE'), 0)) AS sees_sessions,
       CONVERT(bit, IIF(IS_MEMBER('db_owner') = 1, 1, 0)) AS is_owner,
       CONVERT(bit, IIF(SCHEMA_ID('turno') IS NULL, 0, 1)) AS is_installed
FROM sys.databases d WHERE d.database_id = DB_ID();

-- statement: clock
SELECT DATEDIFF_BIG(microsecond, '1970-01-01', SYSUTCDATETIME()) AS now_us;

-- statement: routines
SELECT CONVERT(nvarchar(128), o.name) AS name, m.definition AS body
FROM sys.objects o LEFT JOIN sys.sql_modules m ON m.object_id = o.object_id
WHERE o.schema_id = SCHEMA_ID('turno') AND o.type IN ('P', 'FN', 'IF', 'TF') ORDER BY o.name;

-- statement: constraints
SELECT CONVERT(nvarchar(128), c.name) AS name, CONVERT(bit, IIF(c.is_disabled = 1 OR c.is_not_trusted = 1, 0, 1)) AS is_valid
FROM sys.check_constraints c WHERE c.schema_id = SCHEMA_ID('turno');

-- statement: triggers
SELECT CONVERT(nvarchar(128), t.name) AS name, CONVERT(nvarchar(128), o.name) AS table_name
FROM sys.triggers t JOIN sys.objects o ON o.object_id = t.parent_id WHERE o.schema_id = SCHEMA_ID('turno');

-- statement: indexes
SELECT CONVERT(nvarchar(128), o.name) AS table_name, CONVERT(nvarchar(128), i.name) AS name, i.is_unique, i.has_filter,
       i.is_disabled, CONVERT(nvarchar(4000), STUFF((SELECT N',' + c.name FROM sys.index_columns k
           JOIN sys.columns c ON c.object_id = k.object_id AND c.column_id = k.column_id
           WHERE k.object_id = i.object_id AND k.index_id = i.index_id AND k.is_included_column = 0
           ORDER BY k.key_ordinal FOR XML PATH('')), 1, 1, N'')) AS names
FROM sys.indexes i JOIN sys.objects o ON o.object_id = i.object_id
WHERE o.schema_id = SCHEMA_ID('turno') AND o.type = 'U' AND i.index_id > 0 AND i.is_primary_key = 0;

-- statement: rights
SELECT CONVERT(nvarchar(128), p.name) AS holder, CONVERT(nvarchar(128), o.name) AS object_name,
       CONVERT(nvarchar(128), IIF(o.type = 'U', N'table', N'routine')) AS what
FROM sys.database_permissions g JOIN sys.database_principals p ON p.principal_id = g.grantee_principal_id
JOIN sys.objects o ON o.object_id = g.major_id
WHERE g.class = 1 AND g.state IN ('G', 'W') AND o.schema_id = SCHEMA_ID('turno');

-- statement: roles
SELECT CONVERT(nvarchar(128), p.name) AS role_name FROM sys.database_principals p
WHERE p.type = 'R' AND p.name LIKE N'turno[_]%' AND IS_ROLEMEMBER(p.name) = 1;

-- statement: transactions
SELECT TOP (20) CONVERT(bigint, s.session_id) AS id, CONVERT(nvarchar(128), s.login_name) AS login_name,
       CONVERT(nvarchar(128), s.program_name) AS application, CONVERT(nvarchar(128), s.host_name) AS address,
       CONVERT(bigint, DATEDIFF(second, t.transaction_begin_time, GETDATE())) * 1000 AS age_ms
FROM sys.dm_tran_active_transactions t JOIN sys.dm_tran_session_transactions x ON x.transaction_id = t.transaction_id
JOIN sys.dm_exec_sessions s ON s.session_id = x.session_id
WHERE s.session_id <> @@SPID ORDER BY t.transaction_begin_time;

-- statement: connections
SELECT (SELECT COUNT_BIG(*) FROM sys.dm_exec_sessions s WHERE s.is_user_process = 1) AS used, CONVERT(bigint, @@MAX_CONNECTIONS) AS most;
