//! Every size limit of the contract, by name. Rule E9: what is beyond a limit is refused before anything is written.

use std::time::Duration;

/// Longest name of a queue, a kind or a worker, in bytes of UTF-8.
pub const NAME_BYTES_MAX: usize = 200;
/// Longest unique or idempotency key, in bytes of UTF-8.
pub const KEY_BYTES_MAX: usize = 512;
/// Bytes of a `traceparent`, no more and no less: the form of version 00 of W3C Trace Context (rule E12).
pub const TRACEPARENT_BYTES_MAX: usize = 55;
/// Largest payload or result in bytes of JSON text, unless the client was told otherwise.
pub const PAYLOAD_BYTES_MAX_DEFAULT: usize = 1 << 20;
/// Deepest nesting of arrays and objects in a payload or result.
pub const PAYLOAD_DEPTH_MAX: usize = 100;
/// Longest error text that is stored, in bytes; longer ones are cut at a character boundary (rule F6).
pub const ERROR_BYTES_MAX: usize = 8192;

/// Most urgent priority.
pub const PRIORITY_MIN: i32 = -1000;
/// Least urgent priority.
pub const PRIORITY_MAX: i32 = 1000;

/// Failure budget of a job that names none.
pub const MAX_ATTEMPTS_DEFAULT: u32 = 20;
/// Largest failure budget, and the attempt at which a job is `dead` whatever its budget (rule F3).
pub const ATTEMPTS_MAX: u32 = 1_000_000;
/// How often a job whose buffered attempt expired unstarted is put back uncharged (rule F2).
pub const UNSTARTED_EXPIRIES_MAX: u32 = 3;

/// Shortest lease, and shortest `max_run`.
pub const LEASE_MIN: Duration = Duration::from_millis(1);
/// Longest lease.
pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
/// Longest time that one attempt may ever be given.
pub const MAX_RUN_MAX: Duration = Duration::from_secs(365 * 24 * 3600);
/// Time of one attempt for a job that names none.
pub const MAX_RUN_DEFAULT: Duration = Duration::from_secs(3600);
/// How long a lease may outlive `max_run`, so that the deadline's verdict can still be recorded (rule H3).
pub const MAX_RUN_MARGIN: Duration = Duration::from_secs(10);
/// Longest delay that a retry or a release may ask for.
pub const DELAY_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// Most jobs in one claim.
pub const CLAIM_JOBS_MAX: u32 = 1000;
/// Most queues in one claim.
pub const CLAIM_QUEUES_MAX: usize = 100;
/// Most leases in one statement of a heartbeat; longer lists are sent in pieces.
pub const HEARTBEAT_JOBS_MAX: usize = 1000;
/// Most jobs in one statement of a settle; longer lists are sent in pieces.
pub const SETTLE_JOBS_MAX: usize = 1000;
/// Most jobs in one call of enqueue, which is one transaction.
pub const ENQUEUE_JOBS_MAX: usize = 100_000;
/// Most bytes of payload in one call of enqueue.
pub const ENQUEUE_BYTES_MAX: usize = 256 << 20;
/// Most rows in one batch of reap, promote and prune.
pub const MAINTENANCE_ROWS_MAX: u32 = 1000;
/// Attempts that are kept from the beginning of a job's life, and as many from its end (rule F7).
pub const ATTEMPTS_KEPT_EACH_END: u32 = 100;
/// Rows of the ledger of refused results that are kept for one job; later ones only count (rule S7).
pub const REFUSED_ROWS_PER_JOB_MAX: u32 = 100;
/// How far `stats` counts before it answers "at least" (rule V1).
pub const STATS_COUNT_CAP: u64 = 10_000;
/// Of how many ended jobs, the latest of each outcome, `stats` says how long they took (rule V1).
pub const STATS_TIMES_ROWS: u32 = 1000;
/// Most rows in one page of a listing.
pub const PAGE_ROWS_MAX: u32 = 1000;
/// Most jobs that a listing looks at for one page (rule V6).
pub const LOOKED_AT_MAX: u64 = 10_000;

/// Longest cron expression, in bytes.
pub const SCHEDULE_CRON_BYTES_MAX: usize = 200;
/// Longest name of a time zone, in bytes.
pub const SCHEDULE_ZONE_BYTES_MAX: usize = 100;
/// Largest payload of a schedule, in bytes of JSON text: less than a job's, since one fire may write it a hundred times.
pub const SCHEDULE_PAYLOAD_BYTES_MAX: usize = 64 << 10;
/// Most jobs of one schedule in one fire, and so the most missed instants that are made up for (rule K4).
pub const SCHEDULE_RUNS_MAX: u32 = 100;
/// How late an instant may be fired before the policy `skip` calls it missed.
pub const SCHEDULE_SKIP_GRACE: Duration = Duration::from_secs(60);
/// How long it is remembered which instant became which job (rule K5).
pub const SCHEDULE_RUNS_KEPT: Duration = Duration::from_secs(7 * 24 * 3600);
