//! The SQL files of this crate, and the statements in them by name. Refuses to build any SQL text: a statement is used
//! whole, as it stands in its file behind a line `-- statement: <name>`.

use std::collections::HashMap;
use std::sync::LazyLock;

pub(crate) use turno_contract::schema_files::File;

macro_rules! files {
    ($folder:literal: $($name:ident),+ $(,)?) => {
        &[$((stringify!($name), include_str!(concat!("../sql/", $folder, "/", stringify!($name), ".sql")))),+]
    };
}

/// One file per operation of the trait `Backend`.
pub(crate) const OPERATIONS: &[(&str, &str)] = files!("operations":
    enqueue, claim, held, heartbeat, complete, fail, release, refused_record, reap, promote, cancel, retry, reprioritize,
    pause, resume, queue_set, queue_list, schedule_put, schedule_list, schedule_pause, schedule_resume, schedule_remove,
    schedule_due, schedule_fire, prune, forget, stats, audit, unhandled, job, jobs, find, attempts, refused, wait,
);

/// Statements that several operations share.
const INTERNAL: &[(&str, &str)] =
    files!("internal": now, settings, end_attempt, finish, settle_miss, ledger, schema_version);

/// The schema files, in the order in which they are applied; the n-th brings the schema to version n.
pub(crate) const SCHEMA: &[File] = &[("0001_initial.sql", include_str!("../sql/schema/0001_initial.sql"))];

/// The file of one operation.
pub(crate) fn operation(name: &str) -> Option<&'static str> {
    OPERATIONS.iter().find(|(operation, _)| *operation == name).map(|(_, text)| *text)
}

/// The text of `<file>.<statement>`.
pub(crate) fn text(name: &str) -> &'static str {
    STATEMENTS.get(name).unwrap_or_else(|| panic!("there is no statement {name}"))
}

/// The names of all statements.
#[cfg(test)]
pub(crate) fn names() -> Vec<String> {
    STATEMENTS.keys().cloned().collect()
}

static STATEMENTS: LazyLock<HashMap<String, &'static str>> = LazyLock::new(|| {
    let mut statements = HashMap::new();
    for (file, content) in OPERATIONS.iter().chain(INTERNAL) {
        for part in content.split("-- statement: ").skip(1) {
            let (name, sql) = part.split_once('\n').expect("a statement's text follows its name");
            let sql = sql.trim().trim_end_matches(';');
            assert!(statements.insert(format!("{file}.{name}"), sql).is_none(), "{file}.{name} twice");
        }
    }
    statements
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_has_a_whole_header_and_a_statement() {
        for (file, content) in OPERATIONS.iter().chain(INTERNAL) {
            for word in ["Takes:", "Returns:", "Raises:", "Transaction:", "Writes:", "Locks:", "Rules:"] {
                assert!(content.contains(word), "{file} does not say {word}");
            }
            assert!(STATEMENTS.keys().any(|name| name.starts_with(&format!("{file}."))), "{file} is empty");
        }
    }
}
