//! What a migration sends, and in which order, against a server that answers what a test says (rule X2 for the grants).

mod fake;

use std::sync::atomic::{AtomicU32, Ordering};

use fake::{Cell, Fake, Reply};
use sha2::{Digest, Sha256};
use turno_contract::schema_files::Ahead;
use turno_contract::{Backend, ErrorKind};
use turno_sqlserver::{SqlServerBackend, SqlServerOptions};

fn number(column: &'static str, value: Option<i64>) -> Reply {
    Reply::Rows(vec![column], vec![vec![Cell::Number(value)]])
}

/// A server with this compatibility level and this version of the schema, on which every statement with `broken` fails.
async fn server(level: i64, version: Option<i64>, broken: &'static str) -> Fake {
    Fake::start(move |request| match request {
        _ if !broken.is_empty() && request.contains(broken) => Reply::Error(229, "permission was denied"),
        _ if request.contains("compatibility_level") => number("compatibility_level", Some(level)),
        _ if request.contains("SELECT OBJECT_ID") => number("id", version.map(|_| 7)),
        _ if request.contains("SELECT version FROM") => number("version", version),
        _ if request.contains("SELECT name, checksum FROM") => {
            let row = |name, sum| vec![Cell::Text(Some(name)), Cell::Text(Some(sum))];
            let schema = row("schema/0001_initial", checksum(include_str!("../sql/schema/0001_initial.sql")));
            let wait = row("wait", checksum(include_str!("../sql/operations/wait.sql")));
            Reply::Rows(vec!["name", "checksum"], vec![schema, wait, row("claim", "old")])
        }
        _ => Reply::Done,
    })
    .await
}

fn checksum(text: &str) -> &'static str {
    let sum: String = Sha256::digest(text).iter().map(|byte| format!("{byte:02x}")).collect();
    Box::leak(sum.into_boxed_str())
}

async fn backend(fake: &Fake) -> SqlServerBackend {
    SqlServerBackend::connect(&fake.url()).await.expect("the backend connects")
}

fn place(fake: &Fake, text: &str) -> usize {
    let seen = fake.seen.lock().expect("no holder panics");
    let found = seen.iter().position(|request| request.contains(text));
    found.unwrap_or_else(|| panic!("{text} was not sent"))
}

#[tokio::test]
async fn a_new_schema_is_made_in_one_transaction_and_in_order() {
    let fake = server(150, None, "").await;
    let report = backend(&fake).await.migrate(false).await.unwrap();
    assert_eq!((report.version_before, report.applied.len()), (None, 1));
    assert!(report.operations.contains(&"claim".to_owned()));
    let order = [
        "SET QUOTED_IDENTIFIER",
        "compatibility_level",
        "turno migrate turno",
        "BEGIN TRANSACTION",
        "CREATE SCHEMA turno",
        "CREATE TABLE turno.unfinished_job",
        "'schema/0001_initial'",
        "FUNCTION turno.bad_name",
        "PROCEDURE turno.claim_take",
        "PROCEDURE turno.claim\n",
        "UPDATE turno.meta",
        "GRANT EXECUTE ON OBJECT::turno.claim TO turno_worker",
        "COMMIT TRANSACTION",
    ];
    // The last requests of each kind: procedures begin and commit transactions in their own texts, too.
    for pair in order[..order.len() - 1].windows(2) {
        assert!(place(&fake, pair[0]) < place(&fake, pair[1]), "{} before {}", pair[0], pair[1]);
    }
    assert!(fake.seen.lock().unwrap().last().unwrap().contains("COMMIT TRANSACTION"));
}

#[tokio::test]
async fn a_check_sends_no_definition_and_takes_no_lock() {
    let fake = server(130, None, "").await;
    let report = backend(&fake).await.migrate(true).await.unwrap();
    assert_eq!(report.applied, ["schema/0001_initial"]);
    for text in ["CREATE", "BEGIN TRANSACTION", "sp_getapplock"] {
        assert_eq!(fake.count(text), 0, "{text}");
    }
}

#[tokio::test]
async fn a_lock_that_is_not_to_be_had_is_tried_for_again_on_another_connection() {
    let refusals = AtomicU32::new(2);
    let fake = Fake::start(move |request| match request {
        _ if request.contains("compatibility_level") => number("compatibility_level", Some(150)),
        _ if request.contains("SELECT OBJECT_ID") => number("id", None),
        _ if request.contains("CREATE TABLE")
            && refusals
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok() =>
        {
            Reply::Error(1222, "Lock request time out period exceeded.")
        }
        _ => Reply::Done,
    })
    .await;
    backend(&fake).await.migrate(false).await.unwrap();
    assert_eq!(fake.count("SET LOCK_TIMEOUT 1000"), 3);
    assert!(fake.seen.lock().unwrap().last().unwrap().contains("COMMIT TRANSACTION"));
}

const AHEAD: Ahead = Ahead {
    schema: &[
        ("0002_job_note", "ALTER TABLE turno.unfinished_job ADD note nvarchar(200);\n"),
        (
            "0003_job_note_online",
            "CREATE INDEX job_note ON turno.unfinished_job (note) WITH (ONLINE = ON);\n",
        ),
    ],
    routines: &[],
    grants: "",
    step: |_| (),
};

/// Outside of a transaction, after the column and before the version; ONLINE only where the edition has it.
#[tokio::test]
async fn an_index_is_built_alone_and_online_where_the_edition_can() {
    for (edition, online) in [(3, "ONLINE = ON"), (5, "ONLINE = ON"), (2, "ONLINE = OFF")] {
        let fake = Fake::start(move |request| match request {
            _ if request.contains("compatibility_level") => number("compatibility_level", Some(150)),
            _ if request.contains("SELECT OBJECT_ID") => number("id", None),
            _ if request.contains("FROM sys.indexes") => number("n", Some(0)),
            _ if request.contains("EngineEdition") => number("edition", Some(edition)),
            _ => Reply::Done,
        })
        .await;
        let options: SqlServerOptions = fake.url().parse().unwrap();
        let backend = SqlServerBackend::connect_with(options.ahead(AHEAD)).await.unwrap();
        assert_eq!(backend.migrate(false).await.unwrap().version, 3);
        let index = place(&fake, "CREATE INDEX job_note");
        let seen = fake.seen.lock().unwrap();
        assert!(seen[index].contains(online), "{}", seen[index]);
        // Alone: procedures have these words in their texts, too.
        let alone = |request: &&String, text: &str| request.contains(text) && request.len() < 200;
        let sent = |text: &str| seen[..index].iter().filter(|request| alone(request, text)).count();
        let ends = (sent("BEGIN TRANSACTION"), sent("COMMIT TRANSACTION"));
        assert_eq!(ends, (1, 1), "nothing is open while it is built");
        assert!(seen[index..].iter().any(|request| request.contains("IIF(version > 3, version, 3)")));
    }
}

#[tokio::test]
async fn an_error_half_way_commits_nothing_and_says_who_may_do_it() {
    let fake = server(160, None, "CREATE ROLE").await;
    let error = backend(&fake).await.migrate(false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::PermissionDenied);
    assert!(error.message().contains("turno migrate --print"), "{error}");
    assert!(
        fake.seen.lock().unwrap().last().unwrap().contains("CREATE ROLE"),
        "something followed the error"
    );
}

#[tokio::test]
async fn only_what_has_changed_is_made_anew() {
    let fake = server(150, Some(1), "").await;
    let report = backend(&fake).await.migrate(false).await.unwrap();
    assert_eq!((report.version_before, report.applied.len()), (Some(1), 0));
    let made = |name: &str| report.operations.iter().any(|operation| operation == name);
    assert!(made("claim") && made("enqueue"), "one has changed, one is missing");
    assert!(!made("wait"), "it is as it was");
    assert_eq!((fake.count("CREATE SCHEMA"), fake.count("PROCEDURE turno.wait")), (0, 0));
}

#[tokio::test]
async fn a_released_schema_file_that_was_edited_is_refused() {
    let fake = Fake::start(|request| match request {
        _ if request.contains("compatibility_level") => number("compatibility_level", Some(150)),
        _ if request.contains("SELECT OBJECT_ID") => number("id", Some(7)),
        _ if request.contains("SELECT version FROM") => number("version", Some(1)),
        _ if request.contains("SELECT name, checksum FROM") => Reply::Rows(
            vec!["name", "checksum"],
            vec![vec![Cell::Text(Some("schema/0001_initial")), Cell::Text(Some("old"))]],
        ),
        _ => Reply::Done,
    })
    .await;
    let error = backend(&fake).await.migrate(false).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch);
    assert_eq!(fake.count("CREATE OR ALTER"), 0);
}

#[tokio::test]
async fn a_server_too_old_and_a_schema_too_new_are_left_alone() {
    for (level, version, kind) in
        [(120, None, ErrorKind::InvalidArgument), (150, Some(99), ErrorKind::VersionMismatch)]
    {
        let fake = server(level, version, "").await;
        let error = backend(&fake).await.migrate(false).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{error:?}");
        for text in ["CREATE SCHEMA", "CREATE OR ALTER", "GRANT", "COMMIT TRANSACTION"] {
            assert_eq!(fake.count(text), 0, "{text}");
        }
    }
}
