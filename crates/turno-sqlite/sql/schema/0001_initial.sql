-- What is stored where.
--
-- turno_job           every unfinished job, and nothing else: what a claim reads stays small. Its indexes are partial, one for
--                     each thing that is ever looked for: the best ready job, the next due one, the next lease to end, the
--                     jobs of one token, the holder of a unique key.
-- turno_finished_job  how a job ended, with its last attempt. A receipt is such a row without payload and result.
-- turno_attempt       ended attempts that did not end their job.
-- turno_enqueue_key   which job an idempotency key stands for; lives as long as the job's record.
-- turno_refused       the ledger of results that came too late or from the wrong hands.
-- turno_queue         settings. The row '' is the installation's defaults; a queue without a row takes them.
-- turno_reaper        when anybody last reaped, and since when the reaper holds back after an outage.
-- turno_schedule      what becomes a job again and again; its revision is the fence of whoever fires it.
-- turno_schedule_run  which instant of a schedule became which job: its key is why no instant becomes two.
-- turno_meta          the schema's version, and the oldest binary that may still use it.
-- turno_schema_file   which of these files were run, with their checksums.
--
-- Instants are microseconds since 1970 (UTC), durations milliseconds; the engine's clock counts whole milliseconds.
-- Every number that a claim or a settle computes with is bounded by a CHECK, so that no content of a row can make a statement
-- that touches other rows fail (rule C6).

CREATE TABLE turno_meta (
    only_row       INTEGER PRIMARY KEY CHECK (only_row = 1),
    version        INTEGER NOT NULL,
    oldest_binary  INTEGER NOT NULL
) STRICT;
INSERT INTO turno_meta (only_row, version, oldest_binary) VALUES (1, 1, 1);

CREATE TABLE turno_schema_file (
    name        TEXT PRIMARY KEY,
    checksum    TEXT NOT NULL,
    applied_at  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE turno_queue (
    queue               TEXT PRIMARY KEY,
    description         TEXT,
    paused_at           INTEGER,
    aging_ms            INTEGER,
    max_attempts        INTEGER NOT NULL DEFAULT 20,
    max_run_ms          INTEGER NOT NULL DEFAULT 3600000,
    retry_base_ms       INTEGER NOT NULL DEFAULT 1000,
    retry_cap_ms        INTEGER NOT NULL DEFAULT 3600000,
    max_attempts_limit  INTEGER NOT NULL DEFAULT 1000000,
    max_run_limit_ms    INTEGER NOT NULL DEFAULT 31536000000,
    run_at_horizon_ms   INTEGER,
    keep_succeeded_ms   INTEGER NOT NULL DEFAULT 86400000,
    keep_cancelled_ms   INTEGER NOT NULL DEFAULT 604800000,
    keep_dead_ms        INTEGER NOT NULL DEFAULT 2592000000,
    receipts_ms         INTEGER NOT NULL DEFAULT 3600000,
    CONSTRAINT queue_name CHECK (octet_length(queue) <= 200 AND queue NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    CONSTRAINT queue_aging CHECK (aging_ms BETWEEN 1 AND 86400000),
    CONSTRAINT queue_max_attempts CHECK (max_attempts BETWEEN 1 AND max_attempts_limit AND max_attempts_limit <= 1000000),
    CONSTRAINT queue_max_run CHECK (max_run_ms BETWEEN 1 AND max_run_limit_ms AND max_run_limit_ms <= 31536000000),
    CONSTRAINT queue_retry CHECK (retry_base_ms >= 1 AND retry_cap_ms BETWEEN retry_base_ms AND 31536000000),
    CONSTRAINT queue_horizon CHECK (run_at_horizon_ms BETWEEN 0 AND 253402300800000),
    CONSTRAINT queue_keep CHECK (keep_succeeded_ms BETWEEN -1 AND 315360000000 AND keep_cancelled_ms BETWEEN -1 AND 315360000000
        AND keep_dead_ms BETWEEN -1 AND 315360000000 AND receipts_ms BETWEEN 0 AND 315360000000)
) STRICT, WITHOUT ROWID;
INSERT INTO turno_queue (queue, description) VALUES ('', 'defaults of this installation');

CREATE TABLE turno_job (
    id                   INTEGER PRIMARY KEY AUTOINCREMENT,
    queue                TEXT NOT NULL,
    kind                 TEXT NOT NULL,
    payload              TEXT NOT NULL,
    state                TEXT NOT NULL,
    priority             INTEGER NOT NULL DEFAULT 0,
    rank                 INTEGER,
    run_at               INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000),
    first_due_at         INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000),
    attempt              INTEGER NOT NULL DEFAULT 0,
    failures             INTEGER NOT NULL DEFAULT 0,
    max_attempts         INTEGER NOT NULL DEFAULT 20,
    max_run_ms           INTEGER NOT NULL DEFAULT 3600000,
    unstarted_expiries   INTEGER NOT NULL DEFAULT 0,
    unique_key           TEXT,
    operation_id         BLOB NOT NULL DEFAULT (randomblob(16)),
    token                BLOB,
    worker               TEXT,
    claimed_at           INTEGER,
    started_at           INTEGER,
    lease_until          INTEGER,
    run_until            INTEGER,
    cancel_requested_at  INTEGER,
    created_at           INTEGER NOT NULL DEFAULT (CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000),
    traceparent          TEXT,
    CONSTRAINT job_id CHECK (id BETWEEN 1 AND 9000000000000000000),
    CONSTRAINT job_state CHECK (state IN ('scheduled', 'ready', 'running')),
    CONSTRAINT job_running CHECK ((state = 'running') = (token IS NOT NULL) AND (state = 'running') = (lease_until IS NOT NULL)
        AND (state = 'running') = (claimed_at IS NOT NULL) AND (state = 'running') = (run_until IS NOT NULL)),
    CONSTRAINT job_rank CHECK (state = 'scheduled' OR rank IS NOT NULL),
    CONSTRAINT job_rank_range CHECK (rank BETWEEN -4600000000000000000 AND 4900000000000000000),
    CONSTRAINT job_token CHECK (length(token) = 16),
    CONSTRAINT job_operation_id CHECK (length(operation_id) = 16),
    CONSTRAINT job_queue CHECK (octet_length(queue) BETWEEN 1 AND 200
        AND queue NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    CONSTRAINT job_kind CHECK (octet_length(kind) BETWEEN 1 AND 200
        AND kind NOT GLOB '*[' || char(1) || '-' || char(31) || char(127) || ']*'),
    CONSTRAINT job_unique_key CHECK (octet_length(unique_key) BETWEEN 1 AND 512),
    CONSTRAINT job_traceparent CHECK (octet_length(traceparent) = 55),
    CONSTRAINT job_priority CHECK (priority BETWEEN -1000 AND 1000),
    CONSTRAINT job_max_attempts CHECK (max_attempts BETWEEN 1 AND 1000000),
    CONSTRAINT job_failures CHECK (failures >= 0 AND failures < max_attempts),
    CONSTRAINT job_unstarted CHECK (unstarted_expiries BETWEEN 0 AND 3),
    CONSTRAINT job_attempt CHECK (attempt BETWEEN 0 AND 1000000 AND (state = 'running' OR attempt < 1000000)),
    CONSTRAINT job_max_run CHECK (max_run_ms BETWEEN 1 AND 31536000000),
    CONSTRAINT job_times CHECK (run_at BETWEEN 0 AND 253402300799999000 AND first_due_at BETWEEN 0 AND 253402300799999000
        AND created_at BETWEEN 0 AND 253402300799999000 AND coalesce(claimed_at, 0) BETWEEN 0 AND 253402300799999000
        AND coalesce(started_at, 0) BETWEEN 0 AND 253402300799999000
        AND coalesce(lease_until, 0) BETWEEN 0 AND 253402300799999000 AND coalesce(run_until, 0) BETWEEN 0 AND 253402300799999000
        AND coalesce(cancel_requested_at, 0) BETWEEN 0 AND 253402300799999000)
) STRICT;
CREATE INDEX turno_job_ready ON turno_job (queue, rank, id) WHERE state = 'ready';
CREATE INDEX turno_job_scheduled ON turno_job (queue, run_at, id) WHERE state = 'scheduled';
CREATE INDEX turno_job_lease ON turno_job (lease_until, id) WHERE state = 'running';
CREATE INDEX turno_job_token ON turno_job (token) WHERE state = 'running';
CREATE UNIQUE INDEX turno_job_unique ON turno_job (queue, unique_key) WHERE unique_key IS NOT NULL;

CREATE TABLE turno_finished_job (
    id            INTEGER PRIMARY KEY,
    queue         TEXT NOT NULL,
    kind          TEXT NOT NULL,
    outcome       TEXT NOT NULL CHECK (outcome IN ('succeeded', 'dead', 'cancelled')),
    payload       TEXT,
    result        TEXT,
    priority      INTEGER NOT NULL,
    attempt       INTEGER NOT NULL,
    failures      INTEGER NOT NULL,
    max_attempts  INTEGER NOT NULL,
    max_run_ms    INTEGER NOT NULL,
    unique_key    TEXT,
    operation_id  BLOB NOT NULL,
    verb          TEXT CHECK (verb IN ('complete', 'fail', 'release', 'expire', 'revoke')),
    token_hash    BLOB,
    charged       INTEGER NOT NULL,
    worker        TEXT,
    claimed_at    INTEGER,
    started_at    INTEGER,
    run_at        INTEGER NOT NULL,
    first_due_at  INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    finished_at   INTEGER NOT NULL,
    error         TEXT,
    error_bytes   INTEGER,
    traceparent   TEXT
) STRICT;
CREATE INDEX turno_finished_job_by_queue ON turno_finished_job (queue, outcome, finished_at, id);
CREATE INDEX turno_finished_job_receipt ON turno_finished_job (queue, finished_at, id) WHERE payload IS NULL;
CREATE INDEX turno_finished_job_trouble ON turno_finished_job (outcome, id) WHERE outcome <> 'succeeded';
-- A job without a unique key has no entry here.
CREATE INDEX turno_finished_job_key ON turno_finished_job (unique_key, id) WHERE unique_key IS NOT NULL;

CREATE TABLE turno_attempt (
    job_id       INTEGER NOT NULL,
    attempt      INTEGER NOT NULL,
    queue        TEXT NOT NULL,
    verb         TEXT NOT NULL CHECK (verb IN ('fail', 'release', 'expire', 'revoke')),
    token_hash   BLOB,
    worker       TEXT,
    claimed_at   INTEGER NOT NULL,
    started_at   INTEGER,
    ended_at     INTEGER NOT NULL,
    charged      INTEGER NOT NULL,
    error        TEXT,
    error_bytes  INTEGER,
    state        TEXT NOT NULL CHECK (state IN ('scheduled', 'ready', 'dead')),
    run_at       INTEGER,
    PRIMARY KEY (job_id, attempt)
) STRICT, WITHOUT ROWID;
CREATE INDEX turno_attempt_retried ON turno_attempt (queue, ended_at)
WHERE verb IN ('fail', 'expire') AND state IN ('scheduled', 'ready');

CREATE TABLE turno_enqueue_key (
    queue   TEXT NOT NULL,
    key     TEXT NOT NULL CHECK (octet_length(key) BETWEEN 1 AND 512),
    job_id  INTEGER NOT NULL,
    PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX turno_enqueue_key_job ON turno_enqueue_key (job_id);

CREATE TABLE turno_refused (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id         INTEGER NOT NULL,
    queue          TEXT,
    attempt        INTEGER NOT NULL,
    verb           TEXT NOT NULL,
    worker         TEXT,
    reason         TEXT NOT NULL,
    detail         TEXT,
    owner          TEXT,
    owner_attempt  INTEGER,
    state          TEXT,
    times          INTEGER NOT NULL DEFAULT 1,
    first_at       INTEGER NOT NULL,
    last_at        INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX turno_refused_once ON turno_refused (job_id, attempt, verb);
CREATE INDEX turno_refused_by_job ON turno_refused (job_id, id);
CREATE INDEX turno_refused_by_time ON turno_refused (last_at);
CREATE INDEX turno_refused_by_queue ON turno_refused (queue, last_at);

CREATE TABLE turno_reaper (
    only_row      INTEGER PRIMARY KEY CHECK (only_row = 1),
    last_reap_at  INTEGER NOT NULL,
    hold_from     INTEGER NOT NULL
) STRICT;
INSERT INTO turno_reaper (only_row, last_reap_at, hold_from)
VALUES (1, CAST(round(unixepoch('now', 'subsec') * 1000) AS INTEGER) * 1000, 0);

CREATE TABLE turno_schedule (
    name          TEXT PRIMARY KEY,
    cron          TEXT NOT NULL,
    zone          TEXT NOT NULL,
    queue         TEXT NOT NULL,
    kind          TEXT NOT NULL,
    payload       TEXT NOT NULL,
    priority      INTEGER NOT NULL,
    max_attempts  INTEGER,
    max_run_ms    INTEGER,
    unique_key    TEXT,
    missed        TEXT NOT NULL,
    missed_limit  INTEGER,
    revision      INTEGER NOT NULL DEFAULT 1,
    done_until    INTEGER NOT NULL,
    next_at       INTEGER,
    paused_at     INTEGER,
    last_at       INTEGER,
    last_job      INTEGER,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    CHECK (octet_length(name) BETWEEN 1 AND 200),
    CHECK (octet_length(cron) BETWEEN 1 AND 200),
    CHECK (octet_length(zone) BETWEEN 1 AND 100),
    CHECK (octet_length(queue) BETWEEN 1 AND 200),
    CHECK (octet_length(kind) BETWEEN 1 AND 200),
    CHECK (octet_length(payload) <= 65536),
    CHECK (priority BETWEEN -1000 AND 1000),
    CHECK (max_attempts BETWEEN 1 AND 1000000),
    CHECK (max_run_ms BETWEEN 1 AND 31536000000),
    CHECK (octet_length(unique_key) BETWEEN 1 AND 512),
    CHECK (CASE missed WHEN 'all' THEN coalesce(missed_limit, 0) BETWEEN 1 AND 100
           ELSE missed IN ('skip', 'latest') AND missed_limit IS NULL END),
    CHECK (next_at >= done_until)
) STRICT;
CREATE INDEX turno_schedule_due ON turno_schedule (next_at, name) WHERE paused_at IS NULL;

CREATE TABLE turno_schedule_run (
    schedule  TEXT NOT NULL,
    instant   INTEGER NOT NULL,
    job_id    INTEGER NOT NULL,
    fired_at  INTEGER NOT NULL,
    PRIMARY KEY (schedule, instant)
) STRICT, WITHOUT ROWID;
CREATE INDEX turno_schedule_run_by_time ON turno_schedule_run (fired_at);
