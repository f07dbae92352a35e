-- Removes everything that a benchmark left in turno's tables, which is known by the names of its queues.
DELETE FROM turno.job WHERE starts_with(queue, 'turno-bench/');
DELETE FROM turno.attempt WHERE starts_with(queue, 'turno-bench/');
DELETE FROM turno.finished_job WHERE starts_with(queue, 'turno-bench/');
DELETE FROM turno.enqueue_key WHERE starts_with(queue, 'turno-bench/');
DELETE FROM turno.refused WHERE starts_with(queue, 'turno-bench/');
DELETE FROM turno.waiting WHERE starts_with(queue, 'turno-bench/');
DELETE FROM turno.queue WHERE starts_with(queue, 'turno-bench/');
