//! The caller's own transaction, on both drivers that the crate knows.

use std::time::Duration;

use sqlx::Connection as _;
use sqlx::postgres::PgConnection;
use turno_conformance::Rig;
use turno_contract::{
    Beat, ClaimRequest, ClaimedJob, Completion, ErrorKind, HeartbeatAnswer, JobId, NewJob, Refused,
    SettledStatus, Verb,
};

use crate::rig::{PostgresRig, session};

async fn running(rig: &PostgresRig) -> ClaimedJob {
    rig.backend().enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
    claim(rig).await
}

async fn claim(rig: &PostgresRig) -> ClaimedJob {
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
        ("SELECT turno.enqueue(NULL, 'k', '1')", "TU001", "without NULL"),
        (
            "SELECT turno.enqueue_many(ARRAY['q'], ARRAY['k', 'k'], ARRAY['1', '2'])",
            "TU001",
            "as many elements",
        ),
        ("SELECT turno.enqueue_many(ARRAY['q'], ARRAY['k'], NULL)", "TU001", "as many elements"),
        ("SELECT turno.enqueue_many('[0:0]={q}', ARRAY['k'], ARRAY['1'])", "TU001", "one list"),
        ("SELECT turno.complete_many(ARRAY[1], NULL, ARRAY[gen_random_uuid()])", "TU001", "as many of each"),
        (
            "SELECT turno.fail_many(ARRAY[1, NULL], ARRAY[1, 1], ARRAY[gen_random_uuid(), NULL], NULL)",
            "TU001",
            "NULL",
        ),
        (
            "SELECT turno.heartbeat(ARRAY[1], ARRAY[1], ARRAY[gen_random_uuid()], NULL)",
            "TU001",
            "a lease has",
        ),
        (
            "SELECT turno.claim(ARRAY['q'], 'w', 1, 1000, '00000000-0000-0000-0000-000000000000')",
            "TU001",
            "nil",
        ),
        ("SELECT turno.claim('{}', 'w', 1, 1000, gen_random_uuid())", "TU001", "queues"),
        ("SELECT turno.complete(1, 1, gen_random_uuid())", "TU005", "no record"),
    ] {
        refuses(&client, sql, code, what).await;
    }
    for past in ["'-infinity'", "'0001-01-01'", "'1970-01-01'", "NULL"] {
        client
            .batch_execute(&format!("SELECT turno.enqueue('p', 'k', '1', p_run_at => {past})"))
            .await
            .unwrap();
    }
    assert_eq!(rig.backend().claim(&ClaimRequest::one("p", "w").limit(10)).await.unwrap().jobs.len(), 4);
}

/// Insists that the statement ends with this code and a message or a constraint that names this.
async fn refuses(client: &tokio_postgres::Client, sql: &str, code: &str, what: &str) {
    let error = client.batch_execute(sql).await.expect_err(sql);
    let db = error.as_db_error().expect("the server's error");
    let text = format!("{} {}", db.message(), db.constraint().unwrap_or_default());
    assert_eq!(db.code().code(), code, "{sql}: {text}");
    assert!(text.contains(what), "{sql}: {text}");
}

/// Rule E9. A column whose elements would meet those of another row, a NULL in place of a list, and numbers that overflow.
#[tokio::test]
async fn the_sql_api_refuses_what_does_not_fit_together() {
    let rig = PostgresRig::new().await;
    let client = session(&rig.url()).await;
    for (sql, code, what) in [
        ("SELECT turno.enqueue_many(NULL, ARRAY['k'], ARRAY['1'])", "TU001", "as many elements"),
        ("SELECT turno.enqueue_many(ARRAY['q'], '[0:0]={k}', ARRAY['1'])", "TU001", "counted from 1"),
        (
            "SELECT turno.enqueue_many(ARRAY['q'], ARRAY['k'], ARRAY['1'], p_unique_keys => '[2:2]={u}')",
            "TU001",
            "counted from 1",
        ),
        (
            "SELECT turno.enqueue('q', 'k', '1', p_run_at => '9999-12-31 23:59:59.9995+00')",
            "TU001",
            "year 9999",
        ),
        ("SELECT turno.claim('[0:0]={q}', 'w', 1, 1000, gen_random_uuid())", "TU001", "from 1"),
        ("SELECT turno.wait(NULL, 1000)", "TU001", "names its queues"),
        ("SELECT turno.wait(ARRAY['q', NULL], 1000)", "TU001", "names its queues"),
        ("SELECT turno.reap(10, 9223372036854775807)", "TU001", "a grace has"),
        ("SELECT turno.refused_record(NULL, 1, gen_random_uuid(), 'fail')", "TU001", "with a proof"),
    ] {
        refuses(&client, sql, code, what).await;
    }
}

/// Rule E12: what is no traceparent is dropped, and the job is enqueued.
#[tokio::test]
async fn the_sql_api_drops_a_malformed_traceparent() {
    let rig = PostgresRig::new().await;
    let client = session(&rig.url()).await;
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let texts = [
        (good.to_owned(), true),
        (good.to_uppercase(), false),
        (format!("{}\n", &good[..54]), false),
        (format!("{good}\n"), false),
        (format!("{good}-more"), false),
        (good.replacen("00", "ff", 1), false),
        (good.replace("0af7651916cd43dd8448eb211c80319c", &"0".repeat(32)), false),
        ("é".repeat(500), false),
        (String::new(), false),
    ];
    for (text, kept) in texts {
        for sql in [
            "SELECT id FROM turno.enqueue('q', 'k', '1', p_traceparent => $1)",
            "SELECT id FROM turno.enqueue('q', 'k', '1', p_traceparent => $1, p_unique_key => 'u')",
            "SELECT id FROM turno.enqueue_many(ARRAY['q'], ARRAY['k'], ARRAY['1'], p_traceparents => ARRAY[$1])",
        ] {
            let id = JobId(client.query_one(sql, &[&text]).await.expect(sql).get(0));
            let job = rig.backend().job(id).await.unwrap().expect("a record");
            assert_eq!(job.traceparent.as_deref(), kept.then_some(good), "{sql}: {text}");
            rig.backend().cancel(id, false).await.unwrap();
        }
    }
}

/// Rule P2. NULL is no consent to revoke a running job.
#[tokio::test]
async fn a_cancel_without_force_is_a_request() {
    let rig = PostgresRig::new().await;
    let job = running(&rig).await;
    let client = session(&rig.url()).await;
    let sql = format!("SELECT answer FROM turno.cancel({}, NULL)", job.proof.job);
    assert_eq!(client.query_one(&sql, &[]).await.unwrap().get::<_, &str>(0), "requested");
}

/// Rules E4, E5. A key whose job was removed before the key was committed creates a job again.
#[tokio::test]
async fn a_key_that_stands_for_nothing_creates_a_job() {
    let rig = PostgresRig::new().await;
    rig.execute("INSERT INTO turno.enqueue_key (queue, key, job_id) VALUES ('q', 'i', 4711)").await.unwrap();
    let answer = rig.backend().enqueue(&[NewJob::new("q", "k", "1").idempotency_key("i")]).await.unwrap()[0];
    assert!(answer.created);
    assert!(rig.backend().job(answer.id).await.unwrap().is_some());
    assert_eq!(rig.backend().audit().await.unwrap(), vec![]);
}

/// Rules P7, V3. Such keys are removed in time, wherever they stand, and no other is.
#[tokio::test]
async fn prune_removes_keys_that_stand_for_nothing() {
    let rig = PostgresRig::new().await;
    let keyed = |key: &str| NewJob::new("q", "k", "1").idempotency_key(key);
    rig.backend().enqueue(&[keyed("done")]).await.unwrap();
    let done = Completion { proof: claim(&rig).await.proof, result: None };
    rig.backend().complete("w", &[done]).await.unwrap();
    rig.backend().enqueue(&[keyed("waits")]).await.unwrap();
    let orphan =
        "INSERT INTO turno.enqueue_key (queue, key, job_id) VALUES ('q', 'first', 0), ('q', 'last', 4711)";
    rig.execute(orphan).await.unwrap();
    assert_eq!(rig.backend().audit().await.unwrap().len(), 1);
    let pruned = async {
        while !rig.backend().audit().await.unwrap().is_empty() {
            rig.backend().prune(1).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(60), pruned).await.expect("each is found");
    let kept = rig.scalar("SELECT count(*) FROM turno.enqueue_key WHERE key IN ('done', 'waits')").await;
    assert_eq!(kept, Some(2));
}

/// Rule H2, also where there is nothing to extend: the lease stands at the end of its attempt's time.
#[tokio::test]
async fn a_held_row_is_busy_at_the_end_of_its_attempts_time_too() {
    let rig = PostgresRig::new().await;
    let new = NewJob::new("q", "k", "1").max_run(Duration::from_secs(60));
    rig.backend().enqueue(&[new]).await.unwrap();
    let job = claim(&rig).await;
    let (beat, lease) = (Beat { proof: job.proof, started: true }, Duration::from_secs(600));
    let held = rig.backend().heartbeat(&[beat], lease).await.unwrap();
    assert!(matches!(held[0], HeartbeatAnswer::Held { .. }), "{held:?}");
    let mut client = session(&rig.url()).await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute("SELECT id FROM turno.job FOR UPDATE").await.unwrap();
    assert_eq!(rig.backend().heartbeat(&[beat], lease).await.unwrap(), [HeartbeatAnswer::Busy]);
}

/// Rules F1, F2. A job that this very claim recovered starts at once, too, unless the caller said otherwise.
#[tokio::test]
async fn a_job_that_the_claim_recovered_counts_as_started() {
    let rig = PostgresRig::new().await;
    rig.backend().enqueue(&[NewJob::new("q", "k", "1").max_attempts(1)]).await.unwrap();
    let buffered = ClaimRequest { start: Some(0), ..ClaimRequest::one("q", "w") };
    rig.backend().claim(&buffered).await.unwrap();
    rig.execute("UPDATE turno.job SET lease_until = clock_timestamp() - interval '1 s'").await.unwrap();
    assert_eq!(rig.backend().claim(&ClaimRequest::one("q", "w")).await.unwrap().jobs.len(), 1);
    assert_eq!(rig.scalar("SELECT count(*) FROM turno.job WHERE started_at IS NOT NULL").await, Some(1));
}

/// Rules R1, R3. A forgotten transaction around a claim does not stop everybody's reaper for ever.
#[tokio::test]
async fn a_forgotten_transaction_does_not_stop_the_reaper() {
    let rig = PostgresRig::new().await;
    let job = running(&rig).await;
    rig.execute("UPDATE turno.job SET lease_until = clock_timestamp() - interval '1 s'").await.unwrap();
    rig.age_reaper(std::time::Duration::from_secs(120)).await;
    let forgotten = session(&rig.url()).await;
    forgotten.batch_execute("BEGIN; SELECT * FROM turno.reaper FOR UPDATE").await.unwrap();
    let lost = rig.backend().reap(10, std::time::Duration::from_secs(1)).await.unwrap().jobs;
    assert_eq!(lost.first().map(|loss| loss.job), Some(job.proof.job));
}

/// Rule V1. A rank that does not fit its priority, as between a change of aging and its end, stops no look at the queue.
#[tokio::test]
async fn stats_come_to_an_end_whatever_the_ranks() {
    let rig = PostgresRig::new().await;
    rig.execute("SELECT turno.queue_set('q', p_aging_ms => 1000)").await.unwrap();
    for priority in [-1000, -1, 0, 7] {
        rig.backend().enqueue(&[NewJob::new("q", "k", "1").priority(priority)]).await.unwrap();
    }
    rig.execute("SELECT turno.queue_set('q', p_aging_ms => 0)").await.unwrap();
    let stats = rig.backend().stats(std::time::Duration::from_secs(60)).await.unwrap();
    assert_eq!(stats[0].ready.n, 4);
}
