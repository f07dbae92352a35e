-- Removes everything that a benchmark left in turno's tables, which is known by the names of its queues.
BEGIN IMMEDIATE;
DELETE FROM turno_job WHERE substr(queue, 1, 12) = 'turno-bench/';
DELETE FROM turno_attempt WHERE substr(queue, 1, 12) = 'turno-bench/';
DELETE FROM turno_finished_job WHERE substr(queue, 1, 12) = 'turno-bench/';
DELETE FROM turno_enqueue_key WHERE substr(queue, 1, 12) = 'turno-bench/';
DELETE FROM turno_refused WHERE substr(queue, 1, 12) = 'turno-bench/';
DELETE FROM turno_queue WHERE substr(queue, 1, 12) = 'turno-bench/';
COMMIT;
