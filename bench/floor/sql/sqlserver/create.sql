-- The floor's own tables: one with nothing but the columns that any queue needs, and the least queue that leases. The copy of turno's
-- job table is made from turno's own schema. Each batch ends at a line that says GO.
CREATE SCHEMA turno_floor;
GO
CREATE TABLE turno_floor.made_by_turno_bench (which_removes_it int);
CREATE TABLE turno_floor.bare (
    id       bigint NOT NULL PRIMARY KEY CLUSTERED,
    queue    varbinary(400) NOT NULL,
    kind     varbinary(400) NOT NULL,
    payload  nvarchar(max) NOT NULL
);
CREATE TABLE turno_floor.lease (
    id           bigint NOT NULL PRIMARY KEY CLUSTERED,
    rank         bigint NOT NULL,
    payload      nvarchar(max) NOT NULL,
    state        varchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL DEFAULT 'ready',
    token        uniqueidentifier,
    lease_until  datetime2(6)
);
CREATE INDEX lease_ready ON turno_floor.lease (rank, id) WHERE state = 'ready';
ALTER TABLE turno_floor.lease SET (LOCK_ESCALATION = DISABLE);
