//! The SQL files, compiled in. Nothing here or elsewhere in the crate builds a statement from pieces.

use turno_contract::schema_files::File;

macro_rules! files {
    ($folder:literal: $($name:literal)+) => {
        &[$(($name, include_str!(concat!("../sql/", $folder, "/", $name, ".sql")))),+]
    };
}

/// Run once each, in this order, and never edited after a release.
pub(crate) const SCHEMA: &[File] = files!("schema": "0001_initial");

/// Routines that operations share; nobody may call them from outside.
pub(crate) const INTERNAL: &[File] = files!("internal":
    "batch_check" "begin_work" "claim_check" "claim_take" "complete_all" "cut_error" "end_attempt" "end_work" "enqueue_bulk"
    "enqueue_check" "enqueue_check_many" "enqueue_keyed" "enqueue_keys" "enqueue_row" "enqueue_rows" "enqueue_single" "enqueue_unique" "finish"
    "forget_rows" "history_stats" "job_lock" "job_records" "jobs_few" "jobs_scan" "ledger_add" "lost_work" "next_due_in" "oldest_due_ms" "own_work" "promote_due"
    "prune_outcome" "queue_names" "queue_row" "queue_rows" "queue_stats" "raise_error" "raise_refusal" "random_id"
    "reap_expired" "reaper_hold" "retry_check" "retry_insert" "schedule_lock" "schedule_run_add" "session_check" "settle_answers" "settle_check" "settle_lock"
    "settle_miss" "settle_row" "settle_rows" "settle_single" "token_jobs" "undo_work");

/// The operations.
pub(crate) const OPERATIONS: &[File] = files!("operations":
    "attempts" "audit" "cancel" "claim" "complete" "complete_many" "enqueue" "enqueue_many" "enqueue_many_prioritized"
    "enqueue_prioritized" "fail" "fail_many" "find" "forget" "heartbeat" "held" "job" "jobs" "pause" "promote" "prune"
    "queue_list" "queue_set" "reap" "refused" "refused_record" "release" "release_many" "reprioritize" "rerank" "resume"
    "retry" "schedule_due" "schedule_fire" "schedule_list" "schedule_pause" "schedule_put" "schedule_remove" "schedule_resume"
    "schema_version" "stats" "unhandled" "wait");

/// Which role may call which operation.
pub(crate) const GRANTS: &str = include_str!("../sql/grants.txt");

/// The text as it is for an installation in another database. `turno` stands in the files for the database, the prefix of
/// the roles, of savepoints and of named locks, and for nothing else.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("turno", schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_folders_is_listed() {
        for (folder, files) in [("schema", SCHEMA), ("internal", INTERNAL), ("operations", OPERATIONS)] {
            let path = format!("{}/sql/{folder}", env!("CARGO_MANIFEST_DIR"));
            let mut found: Vec<String> = std::fs::read_dir(path)
                .unwrap()
                .filter_map(|entry| {
                    let name = entry.unwrap().file_name().into_string().unwrap();
                    name.strip_suffix(".sql").map(str::to_owned)
                })
                .collect();
            found.sort();
            let mut listed: Vec<&str> = files.iter().map(|(name, _)| *name).collect();
            listed.sort();
            assert_eq!(found, listed, "{folder}");
        }
    }
}
