-- What is stored where.
--
-- turno.job           every unfinished job, and nothing else: what a claim reads stays small. Its indexes are partial, one for
--                     each thing that is ever looked for: the best ready job, the next due one, the next lease to end, the
--                     jobs of one token, the holder of a unique key.
-- turno.finished_job  how a job ended, with its last attempt. A receipt is such a row without payload and result.
-- turno.attempt       ended attempts that did not end their job.
-- turno.enqueue_key   which job an idempotency key stands for; lives as long as the job's record. No unique index can span job
--                     and finished_job, hence a table of its own.
-- turno.refused       the ledger of results that came too late or from the wrong hands.
-- turno.queue         settings. The row '' is the installation's defaults; a queue without a row takes them.
-- turno.waiting       who sleeps until a queue has work: the doorbell rings only then.
-- turno.reaper        when anybody last reaped, to notice an outage.
-- turno.schedule      what becomes a job again and again; its revision is the fence of whoever fires it.
-- turno.schedule_run  which instant of a schedule became which job: its key is why no instant becomes two.
--
-- Every number that a claim or a settle computes with is bounded by a CHECK, so that no content of a row can make a statement
-- that touches other rows fail (rule C6). The CHECKs of the table job are one function: PostgreSQL reads the text of each CHECK anew
-- for each statement, and twelve of them were a third of the cost of a single claim.

CREATE SEQUENCE turno.job_id AS bigint;

CREATE TABLE turno.queue (
    queue               text COLLATE "C" PRIMARY KEY,
    description         text,
    paused_at           timestamptz,
    aging_ms            bigint,
    max_attempts        integer NOT NULL DEFAULT 20,
    max_run_ms          bigint NOT NULL DEFAULT 3600000,
    retry_base_ms       bigint NOT NULL DEFAULT 1000,
    retry_cap_ms        bigint NOT NULL DEFAULT 3600000,
    max_attempts_limit  integer NOT NULL DEFAULT 1000000,
    max_run_limit_ms    bigint NOT NULL DEFAULT 31536000000,
    run_at_horizon_ms   bigint,
    keep_succeeded_ms   bigint NOT NULL DEFAULT 86400000,
    keep_cancelled_ms   bigint NOT NULL DEFAULT 604800000,
    keep_dead_ms        bigint NOT NULL DEFAULT 2592000000,
    receipts_ms         bigint NOT NULL DEFAULT 3600000,
    CONSTRAINT queue_name CHECK (octet_length(queue) <= 200 AND queue !~ '[\x01-\x1f\x7f]'),
    CONSTRAINT queue_aging CHECK (aging_ms BETWEEN 1 AND 86400000),
    CONSTRAINT queue_max_attempts CHECK (max_attempts BETWEEN 1 AND max_attempts_limit AND max_attempts_limit <= 1000000),
    CONSTRAINT queue_max_run CHECK (max_run_ms BETWEEN 1 AND max_run_limit_ms AND max_run_limit_ms <= 31536000000),
    CONSTRAINT queue_retry CHECK (retry_base_ms >= 1 AND retry_cap_ms BETWEEN retry_base_ms AND 31536000000),
    CONSTRAINT queue_horizon CHECK (run_at_horizon_ms BETWEEN 0 AND 253402300800000),
    CONSTRAINT queue_keep CHECK (keep_succeeded_ms BETWEEN -1 AND 315360000000 AND keep_cancelled_ms BETWEEN -1 AND 315360000000
        AND keep_dead_ms BETWEEN -1 AND 315360000000 AND receipts_ms BETWEEN 0 AND 315360000000)
);
INSERT INTO turno.queue (queue, description) VALUES ('', 'defaults of this installation');

CREATE FUNCTION turno.job_is_sound(
    state text, queue text, kind text, unique_key text, priority integer, attempt bigint, failures integer, max_attempts integer,
    unstarted_expiries integer, max_run_ms bigint, run_at timestamptz, rank bigint, token uuid, claimed_at timestamptz,
    lease_until timestamptz, run_until timestamptz, traceparent text) RETURNS boolean
LANGUAGE plpgsql IMMUTABLE
AS $$
DECLARE
    v_bad text;
BEGIN
    IF (CASE state WHEN 'running' THEN num_nulls(token, lease_until, claimed_at, run_until, rank) = 0 AND attempt <= 1000000
                  WHEN 'ready' THEN num_nonnulls(token, lease_until, claimed_at, run_until) = 0 AND rank IS NOT NULL AND attempt < 1000000
                  WHEN 'scheduled' THEN num_nonnulls(token, lease_until, claimed_at, run_until) = 0 AND attempt < 1000000
                  ELSE false END)
        AND octet_length(queue) BETWEEN 1 AND 200 AND octet_length(kind) BETWEEN 1 AND 200
        AND (unique_key IS NULL OR octet_length(unique_key) BETWEEN 1 AND 512) AND (traceparent IS NULL OR octet_length(traceparent) = 55)
        AND priority BETWEEN -1000 AND 1000 AND max_attempts BETWEEN 1 AND 1000000 AND failures >= 0 AND failures < max_attempts
        AND unstarted_expiries BETWEEN 0 AND 3 AND attempt >= 0 AND max_run_ms BETWEEN 1 AND 31536000000
        AND run_at >= '1970-01-01 00:00:00+00' AND run_at < '10000-01-01 00:00:00+00' THEN
        RETURN true;
    END IF;
    v_bad := CASE
        WHEN octet_length(queue) NOT BETWEEN 1 AND 200 THEN 'job_queue: queue has 1..200 bytes'
        WHEN octet_length(kind) NOT BETWEEN 1 AND 200 THEN 'job_kind: kind has 1..200 bytes'
        WHEN octet_length(unique_key) NOT BETWEEN 1 AND 512 THEN 'job_unique_key: unique_key has 1..512 bytes'
        WHEN octet_length(traceparent) <> 55 THEN 'job_traceparent: traceparent has 55 bytes'
        WHEN priority NOT BETWEEN -1000 AND 1000 THEN 'job_priority: priority is in -1000..1000'
        WHEN max_attempts NOT BETWEEN 1 AND 1000000 THEN 'job_max_attempts: max_attempts is in 1..1000000'
        WHEN max_run_ms NOT BETWEEN 1 AND 31536000000 THEN 'job_max_run: max_run_ms is in 1..31536000000'
        WHEN run_at < '1970-01-01 00:00:00+00' OR run_at >= '10000-01-01 00:00:00+00' THEN 'job_run_at: run_at is in the years 1970..9999'
        WHEN failures < 0 OR failures >= max_attempts OR unstarted_expiries NOT BETWEEN 0 AND 3 OR attempt < 0
            THEN 'job_counts: failures, unstarted_expiries and attempt are counts within their limits'
        ELSE 'job_state: a running job, and no other, has a token and a lease; a ready one has a rank' END;
    -- The name in front is what a constraint of its own would be called.
    RAISE EXCEPTION 'not a sound job: %', substr(v_bad, strpos(v_bad, ': ') + 2)
        USING ERRCODE = 'check_violation', TABLE = 'job', CONSTRAINT = split_part(v_bad, ':', 1);
END $$;

CREATE TABLE turno.job (
    id                   bigint NOT NULL DEFAULT nextval('turno.job_id'),
    priority             integer NOT NULL DEFAULT 0,
    failures             integer NOT NULL DEFAULT 0,
    max_attempts         integer NOT NULL DEFAULT 20,
    unstarted_expiries   integer NOT NULL DEFAULT 0,
    attempt              bigint NOT NULL DEFAULT 0,
    max_run_ms           bigint NOT NULL DEFAULT 3600000,
    rank                 bigint,
    run_at               timestamptz NOT NULL DEFAULT clock_timestamp(),
    first_due_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    created_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    claimed_at           timestamptz,
    started_at           timestamptz,
    lease_until          timestamptz,
    run_until            timestamptz,
    cancel_requested_at  timestamptz,
    operation_id         uuid NOT NULL DEFAULT gen_random_uuid(),
    token                uuid,
    state                text COLLATE "C" NOT NULL,
    queue                text COLLATE "C" NOT NULL,
    kind                 text COLLATE "C" NOT NULL,
    unique_key           text COLLATE "C",
    worker               text COLLATE "C",
    payload              text COLLATE "C" NOT NULL,
    traceparent          text COLLATE "C",
    CONSTRAINT job_pkey PRIMARY KEY (id),
    CONSTRAINT job_is_sound CHECK (turno.job_is_sound(state, queue, kind, unique_key, priority, attempt, failures, max_attempts,
        unstarted_expiries, max_run_ms, run_at, rank, token, claimed_at, lease_until, run_until, traceparent))
);
-- A waiting job is deleted or updated soon: leave room for it, do not let escalating vacuum thresholds starve the table, and
-- keep payloads above 2 KB out of the row so that a claim does not copy them.
ALTER TABLE turno.job SET (fillfactor = 80, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    autovacuum_vacuum_cost_delay = 1, autovacuum_analyze_scale_factor = 0.2, autovacuum_analyze_threshold = 5000);
CREATE INDEX job_ready ON turno.job (queue, rank, id) WHERE state = 'ready';
CREATE INDEX job_scheduled ON turno.job (queue, run_at, id) WHERE state = 'scheduled';
-- Running jobs are in two indexes under two conditions that mean the same, so that the planner cannot take one for the other: while the
-- table is small, each looks as good as any.
CREATE INDEX job_lease ON turno.job (lease_until, id) WHERE lease_until IS NOT NULL;
CREATE INDEX job_token ON turno.job (token) WHERE state = 'running';
CREATE UNIQUE INDEX job_unique ON turno.job (queue, unique_key) WHERE unique_key IS NOT NULL;

CREATE TABLE turno.finished_job (
    id            bigint NOT NULL,
    priority      integer NOT NULL,
    failures      integer NOT NULL,
    max_attempts  integer NOT NULL,
    attempt       bigint NOT NULL,
    max_run_ms    bigint NOT NULL,
    error_bytes   bigint,
    run_at        timestamptz NOT NULL,
    first_due_at  timestamptz NOT NULL,
    created_at    timestamptz NOT NULL,
    claimed_at    timestamptz,
    started_at    timestamptz,
    finished_at   timestamptz NOT NULL,
    operation_id  uuid NOT NULL,
    charged       boolean NOT NULL,
    token_hash    bytea,
    outcome       text COLLATE "C" NOT NULL,
    verb          text COLLATE "C",
    queue         text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    unique_key    text COLLATE "C",
    worker        text COLLATE "C",
    payload       text COLLATE "C",
    result        text COLLATE "C",
    error         text COLLATE "C",
    traceparent   text COLLATE "C",
    CONSTRAINT finished_job_pkey PRIMARY KEY (id),
    CONSTRAINT finished_job_outcome CHECK (outcome IN ('succeeded', 'dead', 'cancelled')),
    CONSTRAINT finished_job_verb CHECK (verb IN ('complete', 'fail', 'release', 'expire', 'revoke'))
);
-- By a number that stands for queue and outcome: with two texts in front of each comparison this was the dearest index of all. Names
-- of one number are told apart by the condition on the columns themselves.
CREATE INDEX finished_job_by_queue ON turno.finished_job (hashtextextended(queue, ascii(outcome)), finished_at, id)
    WITH (deduplicate_items = off);
-- Few jobs end so, and people look for them by queue and kind: the rows themselves lie one on a page of the disk each.
CREATE INDEX finished_job_trouble ON turno.finished_job (outcome, id) INCLUDE (queue, kind) WHERE outcome <> 'succeeded';
CREATE INDEX finished_job_trouble_by_queue ON turno.finished_job (outcome, queue, id) INCLUDE (kind) WHERE outcome <> 'succeeded';
-- A job without a unique key has no entry here.
CREATE INDEX finished_job_key ON turno.finished_job (unique_key, id) WHERE unique_key IS NOT NULL;

CREATE TABLE turno.attempt (
    job_id       bigint NOT NULL,
    attempt      bigint NOT NULL,
    error_bytes  bigint,
    claimed_at   timestamptz NOT NULL,
    started_at   timestamptz,
    ended_at     timestamptz NOT NULL,
    run_at       timestamptz NOT NULL,
    charged      boolean NOT NULL,
    token_hash   bytea,
    verb         text COLLATE "C" NOT NULL,
    state        text COLLATE "C" NOT NULL,
    queue        text COLLATE "C" NOT NULL,
    worker       text COLLATE "C",
    error        text COLLATE "C",
    CONSTRAINT attempt_pkey PRIMARY KEY (job_id, attempt),
    CONSTRAINT attempt_verb CHECK (verb IN ('fail', 'release', 'expire', 'revoke'))
);
CREATE INDEX attempt_by_queue ON turno.attempt (queue, ended_at);

CREATE TABLE turno.enqueue_key (
    queue   text COLLATE "C" NOT NULL,
    key     text COLLATE "C" NOT NULL,
    job_id  bigint NOT NULL,
    CONSTRAINT enqueue_key_pkey PRIMARY KEY (queue, key),
    CONSTRAINT enqueue_key_length CHECK (octet_length(key) BETWEEN 1 AND 512)
);
CREATE INDEX enqueue_key_job ON turno.enqueue_key (job_id);

CREATE TABLE turno.refused (
    id             bigint GENERATED ALWAYS AS IDENTITY,
    job_id         bigint NOT NULL,
    attempt        bigint NOT NULL,
    owner_attempt  bigint,
    times          bigint NOT NULL DEFAULT 1,
    first_at       timestamptz NOT NULL,
    last_at        timestamptz NOT NULL,
    verb           text COLLATE "C" NOT NULL,
    queue          text COLLATE "C",
    state          text COLLATE "C",
    worker         text COLLATE "C",
    owner          text COLLATE "C",
    reason         text COLLATE "C" NOT NULL,
    detail         text COLLATE "C",
    CONSTRAINT refused_pkey PRIMARY KEY (id)
);
CREATE UNIQUE INDEX refused_once ON turno.refused (job_id, attempt, verb);
CREATE INDEX refused_by_time ON turno.refused (last_at);

CREATE TABLE turno.waiting (
    queue  text COLLATE "C" PRIMARY KEY,
    until  timestamptz NOT NULL
);

CREATE TABLE turno.reaper (
    single        boolean PRIMARY KEY DEFAULT true CHECK (single),
    last_reap_at  timestamptz NOT NULL,
    hold_from     timestamptz NOT NULL
);
INSERT INTO turno.reaper (last_reap_at, hold_from) VALUES (clock_timestamp(), '1970-01-01 00:00:00+00');

CREATE TABLE turno.schedule (
    name          text COLLATE "C" NOT NULL,
    revision      bigint NOT NULL DEFAULT 1,
    priority      integer NOT NULL,
    max_attempts  integer,
    max_run_ms    bigint,
    missed_limit  integer,
    done_until    timestamptz NOT NULL,
    next_at       timestamptz,
    paused_at     timestamptz,
    last_at       timestamptz,
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    last_job      bigint,
    cron          text COLLATE "C" NOT NULL,
    zone          text COLLATE "C" NOT NULL,
    missed        text COLLATE "C" NOT NULL,
    queue         text COLLATE "C" NOT NULL,
    kind          text COLLATE "C" NOT NULL,
    unique_key    text COLLATE "C",
    payload       text COLLATE "C" NOT NULL,
    CONSTRAINT schedule_pkey PRIMARY KEY (name),
    CONSTRAINT schedule_name CHECK (octet_length(name) BETWEEN 1 AND 200 AND name !~ '[\x01-\x1f\x7f]'),
    CONSTRAINT schedule_cron CHECK (octet_length(cron) BETWEEN 1 AND 200 AND cron !~ '[\x01-\x1f\x7f]'),
    CONSTRAINT schedule_zone CHECK (octet_length(zone) BETWEEN 1 AND 100 AND zone !~ '[\x01-\x1f\x7f]'),
    CONSTRAINT schedule_queue CHECK (octet_length(queue) BETWEEN 1 AND 200),
    CONSTRAINT schedule_kind CHECK (octet_length(kind) BETWEEN 1 AND 200),
    CONSTRAINT schedule_unique_key CHECK (octet_length(unique_key) BETWEEN 1 AND 512),
    CONSTRAINT schedule_payload CHECK (octet_length(payload) <= 65536),
    CONSTRAINT schedule_missed CHECK (CASE missed WHEN 'all' THEN missed_limit BETWEEN 1 AND 100 AND missed_limit IS NOT NULL
        ELSE missed IN ('skip', 'latest') AND missed_limit IS NULL END),
    CONSTRAINT schedule_next_at CHECK (next_at >= done_until)
);
CREATE INDEX schedule_due ON turno.schedule (next_at, name) WHERE paused_at IS NULL;

CREATE TABLE turno.schedule_run (
    schedule  text COLLATE "C" NOT NULL,
    instant   timestamptz NOT NULL,
    fired_at  timestamptz NOT NULL,
    job_id    bigint NOT NULL,
    CONSTRAINT schedule_run_pkey PRIMARY KEY (schedule, instant)
);
CREATE INDEX schedule_run_by_time ON turno.schedule_run (fired_at);

-- version: of the schema. oldest_binary: a binary whose own schema version is less than this may not use it.
CREATE TABLE turno.meta (
    single         boolean PRIMARY KEY DEFAULT true CHECK (single),
    version        bigint NOT NULL,
    oldest_binary  bigint NOT NULL
);
INSERT INTO turno.meta (version, oldest_binary) VALUES (1, 1);

-- What migrate has run: schema files once and for all, routines whenever their text changes.
CREATE TABLE turno.installed (
    file        text COLLATE "C" PRIMARY KEY,
    checksum    text COLLATE "C" NOT NULL,
    applied_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
