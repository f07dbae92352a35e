-- What is stored where. A line that says GO ends a batch. Run once, in one transaction.
--
-- turno.unfinished_job  every unfinished job, and nothing else: what a claim reads stays small. Its indexes are filtered, one for each
--                       thing that is ever looked for: the best ready job, the next due one, the next lease to end, the jobs of one
--                       token, the holder of a unique key.
-- turno.finished_job    how a job ended, with its last attempt. A receipt is such a row without payload and result.
-- turno.attempt         ended attempts that did not end their job.
-- turno.enqueue_key     which job an idempotency key stands for; lives as long as the job's record. No unique index can span the two
--                       tables of jobs, hence a table of its own.
-- turno.refused_result  the ledger of results that came too late or from the wrong hands.
-- turno.queue           settings. The row 0x is the installation's defaults; a queue without a row takes them.
-- turno.reaper          when anybody last reaped, to notice an outage.
-- turno.schedule        what becomes a job again and again; its revision is the fence of whoever fires it.
-- turno.schedule_run    which instant of a schedule became which job: its key is why no instant becomes two.
--
-- DIFFERS: tables and procedures of a schema share one space of names, so the tables that are job and refused elsewhere have longer
-- names here. The headers of the routines call them job and refused all the same.
--
-- Names and keys are the bytes of their nvarchar (UTF-16, little end first): every collation of this server calls N'a' and N'a '
-- equal, and UTF-8 came only with 2019. CONVERT(nvarchar(200), queue) shows them. Comparing bytes, the server fills the shorter up with
-- zeros; NUL is in no name and no key, so that makes no two of them equal. Instants are datetime2(6) in UTC.
--
-- Every number that a claim or a settle computes with is bounded by a CHECK, so that no content of a row can make a statement
-- that touches other rows fail (rule C6). State and other words of our own are varchar with a binary collation, so that a
-- database of any collation compares them alike.
--
-- LOCK_ESCALATION = DISABLE: a table lock would stop every claim. No statement here takes more than some thousand row locks, since
-- every batch is bounded, so what escalation would save is little.

CREATE SCHEMA turno AUTHORIZATION dbo;
GO
-- A dead job comes back to the hot table with its id, so ids are no IDENTITY. Gaps, which the cache leaves, are harmless.
CREATE SEQUENCE turno.job_id AS bigint START WITH 1 INCREMENT BY 1 MINVALUE 1 NO CYCLE CACHE 1000;
GO
CREATE TABLE turno.queue (
    queue               varbinary(400) NOT NULL,
    description         nvarchar(max),
    paused_at           datetime2(6),
    aging_ms            bigint,
    max_attempts        int NOT NULL CONSTRAINT queue_max_attempts_default DEFAULT 20,
    max_run_ms          bigint NOT NULL CONSTRAINT queue_max_run_default DEFAULT 3600000,
    retry_base_ms       bigint NOT NULL CONSTRAINT queue_retry_base_default DEFAULT 1000,
    retry_cap_ms        bigint NOT NULL CONSTRAINT queue_retry_cap_default DEFAULT 3600000,
    max_attempts_limit  int NOT NULL CONSTRAINT queue_max_attempts_limit_default DEFAULT 1000000,
    max_run_limit_ms    bigint NOT NULL CONSTRAINT queue_max_run_limit_default DEFAULT 31536000000,
    run_at_horizon_ms   bigint,
    keep_succeeded_ms   bigint NOT NULL CONSTRAINT queue_keep_succeeded_default DEFAULT 86400000,
    keep_cancelled_ms   bigint NOT NULL CONSTRAINT queue_keep_cancelled_default DEFAULT 604800000,
    keep_dead_ms        bigint NOT NULL CONSTRAINT queue_keep_dead_default DEFAULT 2592000000,
    receipts_ms         bigint NOT NULL CONSTRAINT queue_receipts_default DEFAULT 3600000,
    CONSTRAINT queue_pkey PRIMARY KEY CLUSTERED (queue),
    CONSTRAINT queue_name CHECK (DATALENGTH(queue) % 2 = 0 AND CONVERT(nvarchar(200), queue) COLLATE Latin1_General_100_BIN2
        NOT LIKE N'%[' + NCHAR(0) + N'-' + NCHAR(31) + NCHAR(127) + N']%'),
    CONSTRAINT queue_aging CHECK (aging_ms BETWEEN 1 AND 86400000),
    CONSTRAINT queue_max_attempts CHECK (max_attempts BETWEEN 1 AND max_attempts_limit AND max_attempts_limit <= 1000000),
    CONSTRAINT queue_max_run CHECK (max_run_ms BETWEEN 1 AND max_run_limit_ms AND max_run_limit_ms <= 31536000000),
    CONSTRAINT queue_retry CHECK (retry_base_ms >= 1 AND retry_cap_ms BETWEEN retry_base_ms AND 31536000000),
    CONSTRAINT queue_horizon CHECK (run_at_horizon_ms BETWEEN 0 AND 253402300800000),
    CONSTRAINT queue_keep CHECK (keep_succeeded_ms BETWEEN -1 AND 315360000000 AND keep_cancelled_ms BETWEEN -1 AND 315360000000
        AND keep_dead_ms BETWEEN -1 AND 315360000000 AND receipts_ms BETWEEN 0 AND 315360000000)
);
INSERT INTO turno.queue (queue, description) VALUES (0x, N'defaults of this installation');
GO
CREATE TABLE turno.unfinished_job (
    id                   bigint NOT NULL CONSTRAINT job_id_default DEFAULT NEXT VALUE FOR turno.job_id,
    priority             int NOT NULL CONSTRAINT job_priority_default DEFAULT 0,
    failures             int NOT NULL CONSTRAINT job_failures_default DEFAULT 0,
    max_attempts         int NOT NULL CONSTRAINT job_max_attempts_default DEFAULT 20,
    unstarted_expiries   int NOT NULL CONSTRAINT job_unstarted_default DEFAULT 0,
    attempt              bigint NOT NULL CONSTRAINT job_attempt_default DEFAULT 0,
    max_run_ms           bigint NOT NULL CONSTRAINT job_max_run_default DEFAULT 3600000,
    rank                 bigint,
    run_at               datetime2(6) NOT NULL CONSTRAINT job_run_at_default DEFAULT SYSUTCDATETIME(),
    first_due_at         datetime2(6) NOT NULL CONSTRAINT job_first_due_at_default DEFAULT SYSUTCDATETIME(),
    created_at           datetime2(6) NOT NULL CONSTRAINT job_created_at_default DEFAULT SYSUTCDATETIME(),
    claimed_at           datetime2(6),
    started_at           datetime2(6),
    lease_until          datetime2(6),
    run_until            datetime2(6),
    cancel_requested_at  datetime2(6),
    operation_id         uniqueidentifier NOT NULL CONSTRAINT job_operation_id_default DEFAULT NEWID(),
    token                uniqueidentifier,
    state                varchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL,
    queue                varbinary(400) NOT NULL,
    kind                 varbinary(400) NOT NULL,
    unique_key           varbinary(1024),
    worker               varbinary(400),
    payload              nvarchar(max) NOT NULL,
    traceparent          varchar(55) COLLATE Latin1_General_100_BIN2,
    CONSTRAINT job_pkey PRIMARY KEY CLUSTERED (id),
    -- The length, since 'ready ' equals 'ready'.
    CONSTRAINT job_state CHECK (state = 'scheduled' AND DATALENGTH(state) = 9 OR state = 'ready' AND DATALENGTH(state) = 5
        OR state = 'running' AND DATALENGTH(state) = 7),
    CONSTRAINT job_running CHECK (state = 'running' AND token IS NOT NULL AND lease_until IS NOT NULL AND claimed_at IS NOT NULL
        AND run_until IS NOT NULL OR state <> 'running' AND token IS NULL AND lease_until IS NULL AND claimed_at IS NULL
        AND run_until IS NULL),
    CONSTRAINT job_rank CHECK (state = 'scheduled' OR rank IS NOT NULL),
    CONSTRAINT job_queue CHECK (DATALENGTH(queue) >= 2 AND DATALENGTH(queue) % 2 = 0
        AND CONVERT(nvarchar(200), queue) COLLATE Latin1_General_100_BIN2
            NOT LIKE N'%[' + NCHAR(0) + N'-' + NCHAR(31) + NCHAR(127) + N']%'),
    CONSTRAINT job_kind CHECK (DATALENGTH(kind) >= 2 AND DATALENGTH(kind) % 2 = 0
        AND CONVERT(nvarchar(200), kind) COLLATE Latin1_General_100_BIN2
            NOT LIKE N'%[' + NCHAR(0) + N'-' + NCHAR(31) + NCHAR(127) + N']%'),
    CONSTRAINT job_unique_key CHECK (DATALENGTH(unique_key) >= 2 AND DATALENGTH(unique_key) % 2 = 0),
    CONSTRAINT job_priority CHECK (priority BETWEEN -1000 AND 1000),
    CONSTRAINT job_max_attempts CHECK (max_attempts BETWEEN 1 AND 1000000),
    CONSTRAINT job_failures CHECK (failures >= 0 AND failures < max_attempts),
    CONSTRAINT job_unstarted CHECK (unstarted_expiries BETWEEN 0 AND 3),
    CONSTRAINT job_attempt CHECK (attempt >= 0 AND attempt <= 1000000 AND (state = 'running' OR attempt < 1000000)),
    CONSTRAINT job_max_run CHECK (max_run_ms BETWEEN 1 AND 31536000000),
    CONSTRAINT job_run_at CHECK (run_at >= '1970-01-01')
);
ALTER TABLE turno.unfinished_job SET (LOCK_ESCALATION = DISABLE);
CREATE INDEX job_ready ON turno.unfinished_job (queue, rank, id) WHERE state = 'ready';
CREATE INDEX job_due ON turno.unfinished_job (queue, run_at, id) WHERE state = 'scheduled';
CREATE INDEX job_lease ON turno.unfinished_job (lease_until, id) WHERE state = 'running';
CREATE INDEX job_token ON turno.unfinished_job (token, id) WHERE state = 'running';
CREATE UNIQUE INDEX job_unique ON turno.unfinished_job (queue, unique_key) INCLUDE (id) WHERE unique_key IS NOT NULL;
GO
CREATE TABLE turno.finished_job (
    id            bigint NOT NULL,
    priority      int NOT NULL,
    failures      int NOT NULL,
    max_attempts  int NOT NULL,
    attempt       bigint NOT NULL,
    max_run_ms    bigint NOT NULL,
    error_bytes   bigint,
    run_at        datetime2(6) NOT NULL,
    first_due_at  datetime2(6) NOT NULL,
    created_at    datetime2(6) NOT NULL,
    claimed_at    datetime2(6),
    started_at    datetime2(6),
    finished_at   datetime2(6) NOT NULL,
    operation_id  uniqueidentifier NOT NULL,
    charged       bit NOT NULL,
    token_hash    binary(32),
    outcome       varchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL,
    verb          varchar(8) COLLATE Latin1_General_100_BIN2,
    queue         varbinary(400) NOT NULL,
    kind          varbinary(400) NOT NULL,
    unique_key    varbinary(1024),
    worker        varbinary(400),
    payload       nvarchar(max),
    result        nvarchar(max),
    error         nvarchar(max),
    traceparent   varchar(55) COLLATE Latin1_General_100_BIN2,
    CONSTRAINT finished_job_pkey PRIMARY KEY CLUSTERED (id),
    CONSTRAINT finished_job_outcome CHECK (outcome IN ('succeeded', 'dead', 'cancelled')),
    CONSTRAINT finished_job_verb CHECK (verb IN ('complete', 'fail', 'release', 'expire', 'revoke'))
);
ALTER TABLE turno.finished_job SET (LOCK_ESCALATION = DISABLE);
CREATE INDEX finished_job_by_queue ON turno.finished_job (queue, outcome, finished_at, id) INCLUDE (claimed_at, run_at, first_due_at);
CREATE INDEX finished_job_trouble ON turno.finished_job (outcome, id) INCLUDE (queue, kind) WHERE outcome IN ('dead', 'cancelled');
-- A job without a unique key has no entry here.
CREATE INDEX finished_job_key ON turno.finished_job (unique_key, id) INCLUDE (queue) WHERE unique_key IS NOT NULL;
GO
CREATE TABLE turno.attempt (
    job_id       bigint NOT NULL,
    attempt      bigint NOT NULL,
    error_bytes  bigint,
    claimed_at   datetime2(6) NOT NULL,
    started_at   datetime2(6),
    ended_at     datetime2(6) NOT NULL,
    run_at       datetime2(6) NOT NULL,
    charged      bit NOT NULL,
    token_hash   binary(32),
    verb         varchar(8) COLLATE Latin1_General_100_BIN2 NOT NULL,
    state        varchar(9) COLLATE Latin1_General_100_BIN2 NOT NULL,
    queue        varbinary(400) NOT NULL,
    worker       varbinary(400),
    error        nvarchar(max),
    CONSTRAINT attempt_pkey PRIMARY KEY CLUSTERED (job_id, attempt),
    CONSTRAINT attempt_verb CHECK (verb IN ('fail', 'release', 'expire', 'revoke'))
);
ALTER TABLE turno.attempt SET (LOCK_ESCALATION = DISABLE);
CREATE INDEX attempt_by_queue ON turno.attempt (queue, ended_at) INCLUDE (charged);
GO
-- Its rows are found by a key of up to 1424 bytes, which only an index that is not clustered may have.
CREATE TABLE turno.enqueue_key (
    queue   varbinary(400) NOT NULL,
    [key]   varbinary(1024) NOT NULL,
    job_id  bigint NOT NULL,
    CONSTRAINT enqueue_key_pkey PRIMARY KEY NONCLUSTERED (queue, [key]),
    CONSTRAINT enqueue_key_length CHECK (DATALENGTH([key]) >= 2 AND DATALENGTH([key]) % 2 = 0)
);
CREATE CLUSTERED INDEX enqueue_key_job ON turno.enqueue_key (job_id);
ALTER TABLE turno.enqueue_key SET (LOCK_ESCALATION = DISABLE);
GO
CREATE TABLE turno.refused_result (
    id             bigint IDENTITY(1, 1) NOT NULL,
    job_id         bigint NOT NULL,
    attempt        bigint NOT NULL,
    owner_attempt  bigint,
    times          bigint NOT NULL CONSTRAINT refused_times_default DEFAULT 1,
    first_at       datetime2(6) NOT NULL,
    last_at        datetime2(6) NOT NULL,
    verb           varchar(8) COLLATE Latin1_General_100_BIN2 NOT NULL,
    queue          varbinary(400),
    state          varchar(9) COLLATE Latin1_General_100_BIN2,
    worker         varbinary(400),
    owner          varbinary(400),
    reason         nvarchar(1000) NOT NULL,
    detail         nvarchar(max),
    CONSTRAINT refused_pkey PRIMARY KEY CLUSTERED (id)
);
ALTER TABLE turno.refused_result SET (LOCK_ESCALATION = DISABLE);
CREATE UNIQUE INDEX refused_once ON turno.refused_result (job_id, attempt, verb);
CREATE INDEX refused_by_time ON turno.refused_result (last_at, id);
CREATE INDEX refused_by_queue ON turno.refused_result (queue, last_at);
GO
CREATE TABLE turno.reaper (
    single        bit NOT NULL CONSTRAINT reaper_single_default DEFAULT 1,
    last_reap_at  datetime2(6) NOT NULL,
    hold_from     datetime2(6) NOT NULL,
    CONSTRAINT reaper_pkey PRIMARY KEY CLUSTERED (single),
    CONSTRAINT reaper_single CHECK (single = 1)
);
INSERT INTO turno.reaper (last_reap_at, hold_from) VALUES (SYSUTCDATETIME(), '1970-01-01');
GO
CREATE TABLE turno.schedule (
    name          varbinary(400) NOT NULL,
    revision      bigint NOT NULL,
    priority      int NOT NULL,
    max_attempts  int,
    max_run_ms    bigint,
    missed_limit  int,
    done_until    datetime2(6) NOT NULL,
    next_at       datetime2(6),
    paused_at     datetime2(6),
    last_at       datetime2(6),
    created_at    datetime2(6) NOT NULL,
    updated_at    datetime2(6) NOT NULL,
    last_job      bigint,
    cron          varbinary(400) NOT NULL,
    zone          varbinary(400) NOT NULL,
    missed        varchar(20) COLLATE Latin1_General_100_BIN2 NOT NULL,
    queue         varbinary(400) NOT NULL,
    kind          varbinary(400) NOT NULL,
    unique_key    varbinary(1024),
    payload       nvarchar(max) NOT NULL,
    CONSTRAINT schedule_pkey PRIMARY KEY CLUSTERED (name),
    CONSTRAINT schedule_name CHECK (DATALENGTH(name) >= 2 AND DATALENGTH(cron) >= 2 AND DATALENGTH(zone) >= 2),
    CONSTRAINT schedule_queue CHECK (DATALENGTH(queue) >= 2 AND DATALENGTH(kind) >= 2),
    CONSTRAINT schedule_payload CHECK (DATALENGTH(payload) <= 131072),
    CONSTRAINT schedule_missed CHECK ((missed = 'all' AND missed_limit IS NOT NULL AND missed_limit BETWEEN 1 AND 100)
        OR (missed IN ('skip', 'latest') AND missed_limit IS NULL)),
    CONSTRAINT schedule_next_at CHECK (next_at >= done_until)
);
ALTER TABLE turno.schedule SET (LOCK_ESCALATION = DISABLE);
CREATE INDEX schedule_due ON turno.schedule (next_at, name) WHERE paused_at IS NULL;
GO
CREATE TABLE turno.schedule_run (
    schedule  varbinary(400) NOT NULL,
    instant   datetime2(6) NOT NULL,
    fired_at  datetime2(6) NOT NULL,
    job_id    bigint NOT NULL,
    CONSTRAINT schedule_run_pkey PRIMARY KEY CLUSTERED (schedule, instant)
);
ALTER TABLE turno.schedule_run SET (LOCK_ESCALATION = DISABLE);
CREATE INDEX schedule_run_by_time ON turno.schedule_run (fired_at);
GO
-- version: of the schema. oldest_binary: a binary whose own schema version is less than this may not use it.
CREATE TABLE turno.meta (
    single         bit NOT NULL CONSTRAINT meta_single_default DEFAULT 1,
    version        bigint NOT NULL,
    oldest_binary  bigint NOT NULL,
    CONSTRAINT meta_pkey PRIMARY KEY CLUSTERED (single),
    CONSTRAINT meta_single CHECK (single = 1)
);
INSERT INTO turno.meta (version, oldest_binary) VALUES (1, 1);
GO
-- What migrate has run: schema files once and for all, routines whenever their text changes.
CREATE TABLE turno.installed (
    name        varchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
    checksum    varchar(64) COLLATE Latin1_General_100_BIN2 NOT NULL,
    applied_at  datetime2(6) NOT NULL,
    CONSTRAINT installed_pkey PRIMARY KEY CLUSTERED (name)
);
