-- The server's processes, if it runs on the client's machine.
SELECT a.pid FROM pg_stat_activity a
WHERE (inet_server_addr() IS NULL OR inet_server_addr() = inet_client_addr() OR inet_server_addr() << '127.0.0.0/8')
