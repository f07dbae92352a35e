-- The floor's own schema: a table with nothing but the columns that any queue needs, and a copy of turno.job.
CREATE SCHEMA turno_floor;
COMMENT ON SCHEMA turno_floor IS 'made by turno bench, which removes it';
CREATE TABLE turno_floor.bare (id bigint, queue text, kind text, payload text);
CREATE TABLE turno_floor.lease (
    id           bigint PRIMARY KEY,
    rank         bigint NOT NULL,
    state        text NOT NULL DEFAULT 'ready',
    token        uuid,
    lease_until  timestamptz,
    payload      text NOT NULL
);
ALTER TABLE turno_floor.lease SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1);
CREATE INDEX lease_ready ON turno_floor.lease (rank, id) WHERE state = 'ready';
CREATE TABLE turno_floor.same (LIKE turno.job INCLUDING ALL);
