-- What is stored where. Every statement can be run again, since MySQL and MariaDB commit each of them.
--
-- turno.job           every unfinished job, and nothing else: what a claim reads stays small. Its indexes are for what is ever
--                     looked for: the best ready job and the next due one in one, the next lease to end, the jobs of one token.
-- turno.unique_key    which unfinished job has a unique key; lives as long as the job is unfinished. An index of turno.job would
--                     hold a record of every job without a key, too, and who waits for a key would stop those. job_id is 0 only
--                     inside the transaction that takes the key.
-- turno.finished_job  how a job ended, with its last attempt. A receipt is such a row without payload and result.
-- turno.attempt       ended attempts that did not end their job.
-- turno.enqueue_key   which job an idempotency key stands for; lives as long as the job's record. No unique index can span job
--                     and finished_job, hence a table of its own. job_id is 0 only inside the transaction that takes the key.
-- turno.refused       the ledger of results that came too late or from the wrong hands.
-- turno.queue         settings. The row '' is the installation's defaults; a queue without a row takes them.
-- turno.reaper        when anybody last reaped, to notice an outage.
-- turno.schedule      what becomes a job again and again; its revision is the fence of whoever fires it, and is 0 only inside the
--                     transaction that creates it. due_at is next_at unless it is paused.
-- turno.schedule_run  which instant of a schedule became which job: its key is why no instant becomes two. job_id is 0 only inside the
--                     transaction that fires.
--
-- Instants are microseconds since 1970 in UTC: no time zone, sql_mode or driver can read them in two ways, and rank is made of
-- the same number. Names and keys are the bytes of their UTF-8, since utf8mb4_bin calls 'a' and 'a ' equal; the database's
-- default character set is utf8mb4 with utf8mb4_bin, which its routines take for their parameters.
--
-- Every number that a claim or a settle computes with is bounded by a CHECK, so that no content of a row can make a statement
-- that touches other rows fail (rule C6). They are computed again with each change of a row, so the dear ones, on names, are asked
-- of waiting jobs only: the name of a running one was checked before.

CREATE TABLE IF NOT EXISTS turno.queue (
    queue               VARBINARY(200) NOT NULL,
    description         LONGTEXT,
    paused_at           BIGINT,
    aging_ms            BIGINT,
    max_attempts        INT NOT NULL DEFAULT 20,
    max_run_ms          BIGINT NOT NULL DEFAULT 3600000,
    retry_base_ms       BIGINT NOT NULL DEFAULT 1000,
    retry_cap_ms        BIGINT NOT NULL DEFAULT 3600000,
    max_attempts_limit  INT NOT NULL DEFAULT 1000000,
    max_run_limit_ms    BIGINT NOT NULL DEFAULT 31536000000,
    run_at_horizon_ms   BIGINT,
    keep_succeeded_ms   BIGINT NOT NULL DEFAULT 86400000,
    keep_cancelled_ms   BIGINT NOT NULL DEFAULT 604800000,
    keep_dead_ms        BIGINT NOT NULL DEFAULT 2592000000,
    receipts_ms         BIGINT NOT NULL DEFAULT 3600000,
    PRIMARY KEY (queue),
    CONSTRAINT queue_name CHECK (HEX(queue) NOT REGEXP '^(..)*(0.|1.|7F)'),
    CONSTRAINT queue_aging CHECK (aging_ms BETWEEN 1 AND 86400000),
    CONSTRAINT queue_max_attempts CHECK (max_attempts BETWEEN 1 AND max_attempts_limit AND max_attempts_limit <= 1000000),
    CONSTRAINT queue_max_run CHECK (max_run_ms BETWEEN 1 AND max_run_limit_ms AND max_run_limit_ms <= 31536000000),
    CONSTRAINT queue_retry CHECK (retry_base_ms >= 1 AND retry_cap_ms BETWEEN retry_base_ms AND 31536000000),
    CONSTRAINT queue_horizon CHECK (run_at_horizon_ms BETWEEN 0 AND 253402300800000),
    CONSTRAINT queue_keep CHECK (keep_succeeded_ms BETWEEN -1 AND 315360000000 AND keep_cancelled_ms BETWEEN -1 AND 315360000000
        AND keep_dead_ms BETWEEN -1 AND 315360000000 AND receipts_ms BETWEEN 0 AND 315360000000)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;
INSERT IGNORE INTO turno.queue (queue, description) VALUES ('', 'defaults of this installation');

-- One column is generated: where a job stands among those of its queue and state, which is its due time while it is scheduled
-- and its rank otherwise. One index then serves claims and promotions, and no scan of it meets a row of another state. It is
-- stored, eight bytes, since indexes on virtual columns cost purge dearly.
CREATE TABLE IF NOT EXISTS turno.job (
    id                   BIGINT NOT NULL AUTO_INCREMENT,
    priority             INT NOT NULL DEFAULT 0,
    failures             INT NOT NULL DEFAULT 0,
    max_attempts         INT NOT NULL DEFAULT 20,
    unstarted_expiries   INT NOT NULL DEFAULT 0,
    attempt              BIGINT NOT NULL DEFAULT 0,
    max_run_ms           BIGINT NOT NULL DEFAULT 3600000,
    `rank`               BIGINT,
    run_at               BIGINT NOT NULL,
    first_due_at         BIGINT NOT NULL,
    created_at           BIGINT NOT NULL,
    claimed_at           BIGINT,
    started_at           BIGINT,
    lease_until          BIGINT,
    run_until            BIGINT,
    cancel_requested_at  BIGINT,
    operation_id         BINARY(16) NOT NULL,
    token                BINARY(16),
    state                VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue                VARBINARY(200) NOT NULL,
    kind                 VARBINARY(200) NOT NULL,
    unique_key           VARBINARY(512),
    worker               VARBINARY(200),
    payload              LONGTEXT NOT NULL,
    traceparent          VARCHAR(55) CHARACTER SET ascii COLLATE ascii_bin,
    place                BIGINT GENERATED ALWAYS AS (IF(state = 'scheduled', run_at, `rank`)) STORED,
    PRIMARY KEY (id),
    KEY job_place (queue, state, place, id),
    KEY job_lease (lease_until, id),
    KEY job_token (token),
    CONSTRAINT job_state CHECK (state IN ('scheduled', 'ready', 'running')),
    CONSTRAINT job_running CHECK ((state = 'running') = (token IS NOT NULL) AND (state = 'running') = (lease_until IS NOT NULL)
        AND (state = 'running') = (claimed_at IS NOT NULL) AND (state = 'running') = (run_until IS NOT NULL)),
    CONSTRAINT job_rank CHECK (state = 'scheduled' OR `rank` IS NOT NULL),
    CONSTRAINT job_queue CHECK (LENGTH(queue) >= 1 AND (token IS NOT NULL OR HEX(queue) NOT REGEXP '^(..)*(0.|1.|7F)')),
    CONSTRAINT job_kind CHECK (LENGTH(kind) >= 1 AND (token IS NOT NULL OR HEX(kind) NOT REGEXP '^(..)*(0.|1.|7F)')),
    CONSTRAINT job_unique_key CHECK (LENGTH(unique_key) >= 1),
    CONSTRAINT job_priority CHECK (priority BETWEEN -1000 AND 1000),
    CONSTRAINT job_max_attempts CHECK (max_attempts BETWEEN 1 AND 1000000),
    CONSTRAINT job_failures CHECK (failures >= 0 AND failures < max_attempts),
    CONSTRAINT job_unstarted CHECK (unstarted_expiries BETWEEN 0 AND 3),
    CONSTRAINT job_attempt CHECK (attempt >= 0 AND attempt <= 1000000 AND (state = 'running' OR attempt < 1000000)),
    CONSTRAINT job_max_run CHECK (max_run_ms BETWEEN 1 AND 31536000000),
    CONSTRAINT job_run_at CHECK (run_at BETWEEN 0 AND 253402300799999999)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS turno.unique_key (
    queue   VARBINARY(200) NOT NULL,
    `key`   VARBINARY(512) NOT NULL,
    job_id  BIGINT NOT NULL,
    PRIMARY KEY (queue, `key`)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS turno.finished_job (
    id            BIGINT NOT NULL,
    priority      INT NOT NULL,
    failures      INT NOT NULL,
    max_attempts  INT NOT NULL,
    attempt       BIGINT NOT NULL,
    max_run_ms    BIGINT NOT NULL,
    error_bytes   BIGINT,
    run_at        BIGINT NOT NULL,
    first_due_at  BIGINT NOT NULL,
    created_at    BIGINT NOT NULL,
    claimed_at    BIGINT,
    started_at    BIGINT,
    finished_at   BIGINT NOT NULL,
    operation_id  BINARY(16) NOT NULL,
    charged       BOOLEAN NOT NULL,
    token_hash    BINARY(32),
    outcome       VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    verb          VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin,
    queue         VARBINARY(200) NOT NULL,
    kind          VARBINARY(200) NOT NULL,
    unique_key    VARBINARY(512),
    worker        VARBINARY(200),
    payload       LONGTEXT,
    result        LONGTEXT,
    error         MEDIUMTEXT,
    traceparent   VARCHAR(55) CHARACTER SET ascii COLLATE ascii_bin,
    PRIMARY KEY (id),
    KEY finished_job_by_queue (queue, outcome, finished_at, id),
    -- With what lists are searched for, since the rows themselves lie one on a page of the disk each.
    KEY finished_job_by_outcome (outcome, id, queue, kind),
    -- Entries of jobs without a unique key cannot be left out here: 18 bytes and about a tenth of the bare insert each (measured).
    KEY finished_job_by_key (unique_key, id),
    CONSTRAINT finished_job_outcome CHECK (outcome IN ('succeeded', 'dead', 'cancelled')),
    CONSTRAINT finished_job_verb CHECK (verb IN ('complete', 'fail', 'release', 'expire', 'revoke'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS turno.attempt (
    job_id       BIGINT NOT NULL,
    attempt      BIGINT NOT NULL,
    error_bytes  BIGINT,
    claimed_at   BIGINT NOT NULL,
    started_at   BIGINT,
    ended_at     BIGINT NOT NULL,
    run_at       BIGINT NOT NULL,
    charged      BOOLEAN NOT NULL,
    token_hash   BINARY(32),
    verb         VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    state        VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue        VARBINARY(200) NOT NULL,
    worker       VARBINARY(200),
    error        MEDIUMTEXT,
    PRIMARY KEY (job_id, attempt),
    KEY attempt_by_queue (queue, ended_at),
    CONSTRAINT attempt_verb CHECK (verb IN ('fail', 'release', 'expire', 'revoke'))
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS turno.enqueue_key (
    queue   VARBINARY(200) NOT NULL,
    `key`   VARBINARY(512) NOT NULL,
    job_id  BIGINT NOT NULL,
    PRIMARY KEY (queue, `key`),
    KEY enqueue_key_job (job_id),
    CONSTRAINT enqueue_key_length CHECK (LENGTH(`key`) >= 1)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;

CREATE TABLE IF NOT EXISTS turno.refused (
    id             BIGINT NOT NULL AUTO_INCREMENT,
    job_id         BIGINT NOT NULL,
    attempt        BIGINT NOT NULL,
    owner_attempt  BIGINT,
    times          BIGINT NOT NULL DEFAULT 1,
    first_at       BIGINT NOT NULL,
    last_at        BIGINT NOT NULL,
    verb           VARCHAR(8) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue          VARBINARY(200),
    state          VARCHAR(9) CHARACTER SET ascii COLLATE ascii_bin,
    worker         VARBINARY(200),
    owner          VARBINARY(200),
    reason         TEXT NOT NULL,
    detail         MEDIUMTEXT,
    PRIMARY KEY (id),
    UNIQUE KEY refused_once (job_id, attempt, verb),
    KEY refused_by_time (last_at),
    KEY refused_by_queue (queue, last_at)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS turno.reaper (
    single        BOOLEAN NOT NULL DEFAULT TRUE,
    last_reap_at  BIGINT NOT NULL,
    hold_from     BIGINT NOT NULL,
    PRIMARY KEY (single),
    CONSTRAINT reaper_single CHECK (single = 1)
) ENGINE = InnoDB;
INSERT IGNORE INTO turno.reaper (last_reap_at, hold_from)
VALUES (TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), 0);

CREATE TABLE IF NOT EXISTS turno.schedule (
    name          VARBINARY(200) NOT NULL,
    revision      BIGINT NOT NULL,
    priority      INT NOT NULL,
    max_attempts  INT,
    max_run_ms    BIGINT,
    missed_limit  INT,
    done_until    BIGINT NOT NULL,
    next_at       BIGINT,
    paused_at     BIGINT,
    last_at       BIGINT,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    last_job      BIGINT,
    cron          VARBINARY(200) NOT NULL,
    zone          VARBINARY(100) NOT NULL,
    missed        VARCHAR(20) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
    queue         VARBINARY(200) NOT NULL,
    kind          VARBINARY(200) NOT NULL,
    unique_key    VARBINARY(512),
    payload       LONGTEXT NOT NULL,
    due_at        BIGINT GENERATED ALWAYS AS (IF(paused_at IS NULL, next_at, NULL)) STORED,
    PRIMARY KEY (name),
    KEY schedule_due (due_at, name),
    CONSTRAINT schedule_name CHECK (LENGTH(name) >= 1 AND HEX(name) NOT REGEXP '^(..)*(0.|1.|7F)'),
    CONSTRAINT schedule_cron CHECK (LENGTH(cron) >= 1 AND HEX(cron) NOT REGEXP '^(..)*(0.|1.|7F)'),
    CONSTRAINT schedule_zone CHECK (LENGTH(zone) >= 1 AND HEX(zone) NOT REGEXP '^(..)*(0.|1.|7F)'),
    CONSTRAINT schedule_queue CHECK (LENGTH(queue) >= 1 AND HEX(queue) NOT REGEXP '^(..)*(0.|1.|7F)'),
    CONSTRAINT schedule_kind CHECK (LENGTH(kind) >= 1 AND HEX(kind) NOT REGEXP '^(..)*(0.|1.|7F)'),
    CONSTRAINT schedule_unique_key CHECK (LENGTH(unique_key) >= 1),
    CONSTRAINT schedule_payload CHECK (LENGTH(payload) <= 65536),
    CONSTRAINT schedule_missed CHECK ((missed = 'all' AND missed_limit IS NOT NULL AND missed_limit BETWEEN 1 AND 100)
        OR (missed IN ('skip', 'latest') AND missed_limit IS NULL)),
    CONSTRAINT schedule_next_at CHECK (next_at >= done_until)
) ENGINE = InnoDB DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin ROW_FORMAT = DYNAMIC;

CREATE TABLE IF NOT EXISTS turno.schedule_run (
    schedule  VARBINARY(200) NOT NULL,
    instant   BIGINT NOT NULL,
    fired_at  BIGINT NOT NULL,
    job_id    BIGINT NOT NULL,
    PRIMARY KEY (schedule, instant),
    KEY schedule_run_by_time (fired_at)
) ENGINE = InnoDB;

-- version: of the schema. oldest_binary: a binary whose own schema version is less than this may not use it. migrating: routines
-- are being made anew, so that a missing one is no reason to give up.
CREATE TABLE IF NOT EXISTS turno.meta (
    single         BOOLEAN NOT NULL DEFAULT TRUE,
    version        BIGINT NOT NULL,
    oldest_binary  BIGINT NOT NULL,
    migrating      BOOLEAN NOT NULL DEFAULT FALSE,
    PRIMARY KEY (single),
    CONSTRAINT meta_single CHECK (single = 1)
) ENGINE = InnoDB;
INSERT IGNORE INTO turno.meta (version, oldest_binary) VALUES (1, 1);

-- What migrate has run: schema files once and for all, routines whenever their text changes.
CREATE TABLE IF NOT EXISTS turno.installed (
    file        VARBINARY(200) NOT NULL,
    checksum    VARBINARY(64) NOT NULL,
    applied_at  DATETIME(6) NOT NULL,
    PRIMARY KEY (file)
) ENGINE = InnoDB;
