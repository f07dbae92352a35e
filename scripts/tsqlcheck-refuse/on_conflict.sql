-- refused: Incorrect syntax near
-- The words of other servers.
INSERT INTO turno.enqueue_key (queue, [key], job_id) VALUES (0x61, 0x62, 1) ON CONFLICT DO NOTHING;
