-- The floor's own database: a table with nothing but the columns that any queue needs, and a copy of turno.job.
CREATE DATABASE turno_floor DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
CREATE TABLE turno_floor.made_by_turno_bench (which_removes_it INT) ENGINE = InnoDB;
CREATE TABLE turno_floor.bare (
    id       BIGINT NOT NULL PRIMARY KEY,
    queue    VARBINARY(200),
    kind     VARBINARY(200),
    payload  LONGTEXT
) ENGINE = InnoDB;
CREATE TABLE turno_floor.lease (
    id           BIGINT NOT NULL PRIMARY KEY,
    `rank`       BIGINT NOT NULL,
    state        ENUM('ready', 'running') NOT NULL DEFAULT 'ready',
    token        BINARY(16),
    lease_until  BIGINT,
    payload      LONGTEXT NOT NULL,
    KEY lease_ready (state, `rank`, id)
) ENGINE = InnoDB;
CREATE TABLE turno_floor.same LIKE turno.job
