//! The SQL files, compiled in. Nothing here or elsewhere in the crate builds a statement from pieces.

use turno_contract::schema_files::File;

macro_rules! files {
    ($folder:literal: $($name:literal)+) => {
        &[$(($name, include_str!(concat!("../sql/", $folder, "/", $name, ".sql")))),+]
    };
}

/// Run once each, in this order, and never edited after a release.
pub(crate) const SCHEMA: &[File] = files!("schema": "0001_initial");

/// Routines that operations share; nobody may call them from outside. Functions come before what calls them, since the server
/// looks for them when it takes a definition; for procedures it does not.
pub(crate) const INTERNAL: &[File] = files!("internal":
    "utf8_bytes" "bad_name" "bad_key" "queue_settings" "names_of" "enqueue_shape" "enqueue_check" "settle_shape"
    "traceparent_kept"
    "heartbeat_miss" "queue_row_settings" "queue_names" "oldest_due_ms" "history_stats" "queue_stats" "batch_check"
    "claim_check" "claim_take" "claimed_jobs" "complete_all" "cut_error" "end_attempt" "enqueue_keyed" "enqueue_row" "enqueue_rows"
    "enqueue_single" "enqueue_unique" "finish" "forget_rows" "heartbeat_keep" "job_lock" "job_records" "jobs_few" "jobs_scan" "join_check"
    "key_find" "key_lock" "ledger_add" "list_check" "next_due_in" "own_check" "promote_due" "prune_outcome" "queue_row"
    "reap_expired" "reaper_hold" "retry_at" "retry_check" "retry_insert" "schedule_lock" "schedule_run_add" "settle_check" "settle_many" "settle_miss"
    "settle_row" "settle_single" "token_jobs");

/// The operations.
pub(crate) const OPERATIONS: &[File] = files!("operations":
    "attempts" "audit" "cancel" "claim" "complete" "complete_many" "enqueue" "enqueue_many" "enqueue_many_prioritized"
    "enqueue_prioritized" "fail" "fail_many" "find" "forget" "heartbeat" "held" "job" "jobs" "pause" "promote" "prune"
    "queue_list" "queue_set" "reap" "refused" "refused_record" "release" "release_many" "reprioritize" "rerank" "resume"
    "retry" "schedule_due" "schedule_fire" "schedule_list" "schedule_pause" "schedule_put" "schedule_remove" "schedule_resume"
    "schema_version" "stats" "unhandled" "wait");

/// Which role may call which operation.
pub(crate) const GRANTS: &str = include_str!("../sql/grants.txt");

/// The text as it is for an installation in another schema. `turno` stands in the files for the schema, the prefix of the
/// roles and of application locks, and for nothing else.
pub(crate) fn in_schema(text: &str, schema: &str) -> String {
    text.replace("turno", schema)
}

/// The batches of a text: what stands between lines that say GO, without those that hold nothing but comments.
pub(crate) fn batches(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut start, mut place) = (0, 0);
    for line in text.split_inclusive('\n') {
        if line.trim().eq_ignore_ascii_case("GO") {
            found.push(&text[start..place]);
            start = place + line.len();
        }
        place += line.len();
    }
    found.push(&text[start..]);
    let says = |batch: &&str| {
        batch.lines().any(|line| !line.trim_start().is_empty() && !line.trim_start().starts_with("--"))
    };
    found.into_iter().filter(says).collect()
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

    #[test]
    fn a_text_is_split_at_lines_that_say_go() {
        assert_eq!(
            batches("SELECT 1;\nGO\n-- nothing\n\ngo\n  -- x\nSELECT 'GO';\n"),
            ["SELECT 1;\n", "  -- x\nSELECT 'GO';\n"]
        );
        assert_eq!(batches("-- only a comment\n").len(), 0);
        for (name, text) in INTERNAL.iter().chain(OPERATIONS) {
            assert_eq!(batches(text).len(), 1, "{name} is one batch");
        }
        // CREATE SCHEMA must be alone in its batch.
        assert!(batches(SCHEMA[0].1)[0].trim_end().ends_with("CREATE SCHEMA turno AUTHORIZATION dbo;"));
    }

    #[test]
    fn another_schema_is_named_throughout() {
        for (name, text) in SCHEMA.iter().chain(INTERNAL).chain(OPERATIONS) {
            let text = in_schema(text, "jobs_2");
            assert!(!text.contains("turno"), "{name}");
        }
    }

    /// The server looks for functions when it takes a definition that calls them.
    #[test]
    fn functions_come_before_their_callers() {
        let mut made = Vec::new();
        for (name, text) in INTERNAL.iter().chain(OPERATIONS) {
            let body = text.split_once("\nAS\n").expect("a body").1;
            for (function, of) in
                INTERNAL.iter().filter(|(_, text)| text.contains("CREATE OR ALTER FUNCTION"))
            {
                let called = body.contains(&format!("turno.{function}("));
                assert!(
                    !called || made.contains(function),
                    "{name} calls {function}, which comes later: {}",
                    of.len()
                );
            }
            made.push(*name);
        }
    }
}
