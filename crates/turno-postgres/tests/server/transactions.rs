//! The caller's own transaction, on both drivers that the crate knows.

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use turno_conformance::Rig;
use turno_contract::{ClaimRequest, ClaimedJob, Completion, ErrorKind, NewJob, Refused, SettledStatus, Verb};

use crate::rig::{PostgresRig, session};

async fn running(rig: &PostgresRig) -> ClaimedJob {
    rig.backend().enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
    rig.backend().claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs.remove(0)
}

fn completion(job: &ClaimedJob) -> Completion {
    Completion { proof: job.proof, result: Some("[1]".into()) }
}

/// Rule E1.
#[tokio::test]
async fn an_enqueue_in_sqlx_commits_and_rolls_back_with_it() {
    let rig = PostgresRig::new().await;
    let mut connection = PgConnection::connect(&rig.url()).await.unwrap();
    let job = NewJob::new("q", "k", "{\"a\":1}").priority(-3).max_attempts(2);
    let mut transaction = connection.begin().await.unwrap();
    rig.postgres().enqueue_in_sqlx(&mut transaction, &job).await.unwrap();
    transaction.rollback().await.unwrap();
    assert!(rig.backend().claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs.is_empty());
    let mut transaction = connection.begin().await.unwrap();
    let id = rig.postgres().enqueue_in_sqlx(&mut transaction, &job).await.unwrap().id;
    transaction.commit().await.unwrap();
    let claimed = rig.backend().claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs.remove(0);
    assert_eq!((claimed.proof.job, claimed.priority, claimed.max_attempts), (id, -3, 2));
}

/// Rule S5. Effects and completion are one; a refusal takes the effects with it and can be reported afterwards.
#[tokio::test]
async fn a_refused_completion_in_sqlx_commits_nothing() {
    let rig = PostgresRig::new().await;
    rig.execute("CREATE TABLE effect (id int)").await.unwrap();
    let job = running(&rig).await;
    let mut connection = PgConnection::connect(&rig.url()).await.unwrap();
    let mut transaction = connection.begin().await.unwrap();
    sqlx::query("INSERT INTO effect VALUES (1)").execute(&mut *transaction).await.unwrap();
    let answer = rig.postgres().complete_in_sqlx(&mut transaction, "w", &completion(&job)).await.unwrap();
    assert_eq!(answer.status, SettledStatus::Done);
    transaction.commit().await.unwrap();
    assert_eq!(rig.scalar("SELECT count(*) FROM effect").await, Some(1));

    let mut stale = running(&rig).await;
    stale.proof.attempt += 1;
    let mut transaction = connection.begin().await.unwrap();
    sqlx::query("INSERT INTO effect VALUES (2)").execute(&mut *transaction).await.unwrap();
    let refused =
        rig.postgres().complete_in_sqlx(&mut transaction, "w", &completion(&stale)).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseLost, "{refused}");
    // PostgreSQL answers ROLLBACK to this COMMIT.
    let _ = transaction.commit().await;
    assert_eq!(rig.scalar("SELECT count(*) FROM effect").await, Some(1));
    let refused = Refused { proof: stale.proof, verb: Verb::Complete, detail: Some("late".into()) };
    rig.backend().refused_record("w", &refused).await.unwrap();
    assert_eq!(rig.backend().refused(Some(stale.proof.job), None, 10).await.unwrap().len(), 1);
}

/// Rule X3. What would be retried in a transaction of our own is the caller's loss here.
#[tokio::test]
async fn a_serialization_failure_in_the_callers_transaction_is_transaction_lost() {
    let rig = PostgresRig::new().await;
    let job = running(&rig).await;
    let client = session(&rig.url()).await;
    client
        .batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM turno.job")
        .await
        .unwrap();
    let beat = turno_contract::Beat { proof: job.proof, started: true };
    rig.backend().heartbeat(&[beat], std::time::Duration::from_secs(60)).await.unwrap();
    let error = rig.postgres().complete_in(&client, "w", &completion(&job)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionLost, "{error}");
    client.batch_execute("ROLLBACK").await.unwrap();
    assert_eq!(
        rig.backend().complete("w", &[completion(&job)]).await.unwrap()[0].status,
        SettledStatus::Done
    );
}

/// Rule E8. The SQL API keeps bytes, and what it cannot keep it refuses with the constraint's name.
#[tokio::test]
async fn the_sql_api_names_what_is_wrong() {
    let rig = PostgresRig::new().await;
    let client = session(&rig.url()).await;
    for (sql, code, what) in [
        ("SELECT turno.enqueue('', 'k', '1')", "23514", "job_queue"),
        ("SELECT turno.enqueue('q', E'a\\nb', '1')", "TU001", "control character"),
        ("SELECT turno.enqueue('q', 'k', NULL)", "23502", "payload"),
        ("SELECT turno.enqueue('q', 'k', '1', p_run_at => 'infinity')", "TU001", "year 9999"),
        ("SELECT turno.enqueue('q', 'k', '1', p_max_attempts => 0)", "TU001", "max_attempts 0"),
        ("SELECT turno.enqueue('q', 'k', '1', p_max_run_ms => -1)", "TU001", "max_run_ms -1"),
        ("SELECT turno.enqueue('q', 'k', '1', p_unique_key => '')", "23514", "job_unique_key"),
        (
            "SELECT turno.enqueue('q', 'k', '1', p_idempotency_key => repeat('x', 513))",
            "23514",
            "enqueue_key_length",
        ),
        ("SELECT turno.enqueue_prioritized('q', 'k', '1', 1001)", "TU001", "priority 1001"),
        (
            "SELECT turno.claim(ARRAY['q'], 'w', 1, 1000, '00000000-0000-0000-0000-000000000000')",
            "TU001",
            "nil",
        ),
        ("SELECT turno.claim('{}', 'w', 1, 1000, gen_random_uuid())", "TU001", "queues"),
        ("SELECT turno.complete(1, 1, gen_random_uuid())", "TU005", "no record"),
    ] {
        let error = client.batch_execute(sql).await.expect_err(sql);
        let db = error.as_db_error().expect("the server's error");
        let text = format!("{} {}", db.message(), db.constraint().unwrap_or_default());
        assert_eq!(db.code().code(), code, "{sql}: {text}");
        assert!(text.contains(what), "{sql}: {text}");
    }
    for past in ["'-infinity'", "'0001-01-01'", "'1970-01-01'", "NULL"] {
        client
            .batch_execute(&format!("SELECT turno.enqueue('p', 'k', '1', p_run_at => {past})"))
            .await
            .unwrap();
    }
    assert_eq!(rig.backend().claim(&ClaimRequest::one("p", "w").limit(10)).await.unwrap().jobs.len(), 4);
}
