//! The words of turno: what a job is, what may be asked of a queue, what may be answered.
//!
//! This crate is for everybody who speaks about jobs: backends implement [`Backend`], the worker and the
//! command line call it. It refuses to know any SQL, any driver and any runtime. The rules behind the words are
//! numbered in `docs/contract.md`; where a comment says "rule C3", it means that document.

mod backend;
mod batch;
mod claim;
pub mod doctor;
mod error;
mod job;
pub mod limits;
mod operate;
mod payload;
mod schedule;
pub mod schema_files;
mod settle;
mod traceparent;

pub use backend::{Backend, BoxedBackend};
pub use batch::{JobBatch, Proofs, job_batches, json_list, whole_ms};
pub use claim::{Beat, ClaimRequest, Claimed, ClaimedJob, HeartbeatAnswer, Proof};
pub use error::{Error, ErrorKind, Result};
pub use job::{Engine, Enqueued, JobId, NewJob, State, Token, Verb, check_jobs};
pub use operate::{
    AttemptRecord, CancelAnswer, Count, Finding, JobFilter, JobRecord, JobsPage, Keep, KeySearch, LeaseLoss,
    MigrateReport, Pruned, QueueSettings, QueueStats, Reaped, RefusedRecord, SettingsChange, Unhandled,
    Usage,
};
pub use payload::{check_json, check_key, check_name};
pub use schedule::{
    DueSchedule, DueSchedules, Fired, Firing, Missed, PutAnswer, Schedule, ScheduleRecord,
    check_schedule_name,
};
pub use settle::{Completion, Failure, Refused, Release, Retry, Settled, SettledStatus, cut_error};
pub use traceparent::kept_traceparent;
