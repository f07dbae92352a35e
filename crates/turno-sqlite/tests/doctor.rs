//! The doctor, on files that are broken each way (rule V5).

use std::path::PathBuf;
use std::time::{Duration, Instant};

use rusqlite::Connection;
use turno_contract::doctor::{Check, CheckStatus, DoctorOptions};
use turno_contract::{Backend, NewJob};
use turno_sqlite::{SqliteBackend, SqliteOptions};

struct File {
    _folder: tempfile::TempDir,
    path: PathBuf,
}

impl File {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = File { path: folder.path().join("jobs.db"), _folder: folder };
        file.backend().await.migrate(false).await.unwrap();
        file
    }

    async fn backend(&self) -> SqliteBackend {
        SqliteBackend::connect(self.path.to_str().unwrap(), SqliteOptions::default()).await.unwrap()
    }

    fn open(&self) -> Connection {
        Connection::open(&self.path).unwrap()
    }

    async fn check(&self, id: &str) -> Check {
        let checks = self.backend().await.doctor(&DoctorOptions::default()).await;
        checks.into_iter().find(|check| check.id == id).unwrap_or_else(|| panic!("no check {id}"))
    }

    /// Does something to the file, sees the check turn and name it, undoes it, and sees it well again.
    async fn turns(&self, harm: &str, undo: &str, id: &str, status: CheckStatus, names: &str) {
        self.open().execute_batch(harm).unwrap();
        let check = self.check(id).await;
        assert_eq!(check.status, status, "{harm}: {check:?}");
        assert!(check.found.contains(names), "{harm}: {check:?}");
        self.open().execute_batch(undo).unwrap();
        let check = self.check(id).await;
        assert_eq!(check.status, CheckStatus::Ok, "{undo}: {check:?}");
    }
}

/// Takes the file out of the write-ahead log once the threads of the backends before have ended.
fn switch_back(file: &File) {
    let begun = Instant::now();
    loop {
        let mode = file.open().query_row("PRAGMA journal_mode = DELETE", [], |row| row.get::<_, String>(0));
        if mode.as_deref() == Ok("delete") {
            return;
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "{mode:?}");
        std::thread::yield_now();
    }
}

/// Rule V5. The file tells its mode before it is opened; afterwards it has been switched.
#[tokio::test]
async fn a_file_in_another_journal_mode_is_a_warning_once() {
    let file = File::new().await;
    assert_eq!(file.check("journal").await.status, CheckStatus::Ok);
    switch_back(&file);
    let check = file.check("journal").await;
    assert!(check.status == CheckStatus::Warning && check.found.contains("rollback"), "{check:?}");
    assert_eq!(file.check("journal").await.status, CheckStatus::Ok);
}

/// Rule V5.
#[tokio::test]
async fn what_was_changed_by_hand_is_found() {
    let file = File::new().await;
    let lease = "CREATE INDEX turno_job_lease ON turno_job (lease_until, id) WHERE state = 'running'";
    let (critical, warning) = (CheckStatus::Critical, CheckStatus::Warning);
    file.turns("DROP INDEX turno_job_lease", lease, "indexes", critical, "turno_job_lease").await;
    let harm = "DROP INDEX turno_job_lease; CREATE INDEX turno_job_lease ON turno_job (lease_until)";
    file.turns(harm, &format!("DROP INDEX turno_job_lease; {lease}"), "indexes", critical, "another one")
        .await;
    let harm = "CREATE TRIGGER noted AFTER INSERT ON turno_job BEGIN DELETE FROM turno_refused; END";
    file.turns(harm, "DROP TRIGGER noted", "drift", warning, "trigger noted on turno_job").await;
    let harm = "CREATE INDEX by_kind ON turno_job (kind)";
    file.turns(harm, "DROP INDEX by_kind", "drift", warning, "index by_kind on turno_job").await;
    let harm = "ALTER TABLE turno_refused RENAME TO turno_refused_old";
    let undo = "ALTER TABLE turno_refused_old RENAME TO turno_refused";
    file.open().execute_batch(harm).unwrap();
    let check = file.check("drift").await;
    assert!(check.status == critical && check.found.contains("missing: table turno_refused"), "{check:?}");
    file.open().execute_batch(undo).unwrap();
    // Its name has been in quotes since, and it is still the table.
    assert_eq!(file.check("drift").await.status, CheckStatus::Ok);
    let harm = "ALTER TABLE turno_queue ADD COLUMN note TEXT";
    let undo = "ALTER TABLE turno_queue DROP COLUMN note";
    file.turns(harm, undo, "drift", warning, "turno_queue").await;
}

/// Rule V5.
#[tokio::test]
async fn an_open_write_transaction_and_a_reader_that_holds_the_log_are_found() {
    let file = File::new().await;
    let backend = file.backend().await;
    let writer = file.open();
    writer.execute_batch("BEGIN IMMEDIATE").unwrap();
    let check = file.check("locks").await;
    assert!(check.status == CheckStatus::Warning && check.found.contains("right to write"), "{check:?}");
    writer.execute_batch("ROLLBACK").unwrap();
    assert_eq!(file.check("locks").await.status, CheckStatus::Ok);
    let reader = file.open();
    reader.execute_batch("BEGIN; SELECT count(*) FROM turno_job").unwrap();
    let payload = format!("\"{}\"", "x".repeat(1_000_000));
    for _ in 0..45 {
        backend.enqueue(&[NewJob::new("q", "k", payload.clone())]).await.unwrap();
    }
    let check = file.check("log").await;
    assert!(check.status == CheckStatus::Warning && check.found.contains("a reader holds"), "{check:?}");
    reader.execute_batch("COMMIT").unwrap();
    assert_eq!(file.check("log").await.status, CheckStatus::Ok);
}

/// Rule V5.
#[tokio::test]
async fn a_missing_or_newer_schema_is_critical() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("empty.db");
    let backend = SqliteBackend::connect(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap();
    let checks = backend.doctor(&DoctorOptions::default()).await;
    let check = checks.iter().find(|check| check.id == "schema").unwrap();
    assert!(check.status == CheckStatus::Critical && check.found.contains("no file"), "{check:?}");
    assert!(!path.exists(), "the doctor makes no file");
    let file = File::new().await;
    let harm = "UPDATE turno_meta SET version = 9, oldest_binary = 9";
    let undo = "UPDATE turno_meta SET version = 1, oldest_binary = 1";
    file.turns(harm, undo, "schema", CheckStatus::Critical, "binary of version 9").await;
}
