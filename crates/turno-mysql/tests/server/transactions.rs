//! The transaction rule: a routine is all or nothing, alone, in a session without autocommit, and inside the caller's
//! transaction, whose other work it leaves as it was (rules E1, S5, X3).

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use turno_contract::{
    Backend, ClaimRequest, ClaimedJob, Completion, ErrorKind, Failure, NewJob, Proof, Retry, State, Token,
};
use turno_mysql::SettlingTransaction;

use crate::rig::{MysqlRig, servers};

/// An installation with a table of the caller's own, and triggers that break what is named `boom` half-way.
async fn breakable(server: &str) -> (MysqlRig, Conn) {
    let rig = MysqlRig::on(server).await;
    let mut owner = rig.session().await;
    for sql in [
        "CREATE TABLE turno.effect (n INT)",
        "CREATE TRIGGER turno.break_insert BEFORE INSERT ON turno.job FOR EACH ROW
         IF NEW.kind = 'boom' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'broken half-way'; END IF",
        "CREATE TRIGGER turno.break_delete BEFORE DELETE ON turno.job FOR EACH ROW
         IF OLD.kind = 'break at the end' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'broken half-way'; END IF",
    ] {
        owner.query_drop(rig.sql(sql)).await.expect("a trigger");
    }
    (rig, owner)
}

async fn rows(owner: &mut Conn, rig: &MysqlRig, table: &str) -> i64 {
    let sql = rig.sql(&format!("SELECT COUNT(*) FROM turno.{table}"));
    owner.query_first(sql).await.expect("a count").expect("a row")
}

async fn claim_one(rig: &MysqlRig, queue: &str) -> ClaimedJob {
    let claimed = rig.mysql().claim(&ClaimRequest::one(queue, "w")).await.expect("a claim");
    claimed.jobs.into_iter().next().expect("a job")
}

fn completion(proof: Proof) -> Completion {
    Completion { proof, result: None }
}

/// How a session stands before a call.
const BEGINNINGS: [&[&str]; 3] = [
    &[],
    &["START TRANSACTION", "INSERT INTO turno.effect VALUES (1)"],
    &["SET autocommit = 0", "INSERT INTO turno.effect VALUES (1)"],
];

/// Rule E1.
#[tokio::test]
async fn an_enqueue_that_breaks_half_way_leaves_nothing_of_itself() {
    for server in servers() {
        let (rig, mut owner) = breakable(&server).await;
        for (i, beginning) in BEGINNINGS.iter().enumerate() {
            let mut session = rig.session().await;
            for sql in *beginning {
                session.query_drop(rig.sql(sql)).await.expect("a beginning");
            }
            let calls = [
                "CALL turno.enqueue('q', 'boom', '1', NULL, NULL, NULL, 'u', 'i', NULL)",
                r#"CALL turno.enqueue_many('[{"queue":"q","kind":"k","payload":"1","idempotency_key":"a"},
                   {"queue":"q","kind":"boom","payload":"1"}]')"#,
            ];
            for call in calls {
                let error = session.query_drop(rig.sql(call)).await.expect_err("the trigger breaks it");
                assert!(error.to_string().contains("broken half-way"), "{error}");
            }
            session.query_drop("COMMIT").await.expect("the caller's own work commits");
            assert_eq!(rows(&mut owner, &rig, "job").await, 0, "{server} {beginning:?}");
            assert_eq!(rows(&mut owner, &rig, "enqueue_key").await, 0, "{server} {beginning:?}");
            assert_eq!(rows(&mut owner, &rig, "effect").await, i as i64, "{server} {beginning:?}");
        }
    }
}

/// Rules S1, S5.
#[tokio::test]
async fn a_completion_that_breaks_half_way_leaves_nothing_of_itself() {
    for server in servers() {
        let (rig, mut owner) = breakable(&server).await;
        rig.mysql().enqueue(&[NewJob::new("q", "break at the end", "1")]).await.expect("enqueue");
        let job = claim_one(&rig, "q").await;
        let (id, attempt, token) = (job.proof.job, job.proof.attempt, job.proof.token.as_uuid());
        for (i, beginning) in BEGINNINGS.iter().enumerate() {
            let mut session = rig.session().await;
            for sql in *beginning {
                session.query_drop(rig.sql(sql)).await.expect("a beginning");
            }
            let batch = format!(r#"[{{"job":{id},"attempt":{attempt},"token":"{token}"}}]"#);
            for call in [
                format!("CALL turno.complete({id}, {attempt}, '{token}', NULL, 'w')"),
                format!("CALL turno.complete_many('{batch}', 'w')"),
            ] {
                let error = session.query_drop(rig.sql(&call)).await.expect_err("the trigger breaks it");
                assert!(error.to_string().contains("broken half-way"), "{error}");
            }
            session.query_drop("COMMIT").await.expect("the caller's own work commits");
            assert_eq!(rows(&mut owner, &rig, "finished_job").await, 0, "{server} {beginning:?}");
            assert_eq!(rows(&mut owner, &rig, "effect").await, i as i64, "{server} {beginning:?}");
        }
        assert_eq!(rig.mysql().held(job.proof.token).await.expect("held").len(), 1);
    }
}

/// Rules E1, S5.
#[tokio::test]
async fn what_joined_a_transaction_shares_its_end() {
    for server in servers() {
        let (rig, mut owner) = breakable(&server).await;
        for begin in ["START TRANSACTION", "SET autocommit = 0"] {
            rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue");
            let job = claim_one(&rig, "q").await;
            for (end, state) in [("ROLLBACK", State::Running), ("COMMIT", State::Succeeded)] {
                let mut session = rig.session().await;
                session.query_drop(begin).await.expect("a transaction");
                let new = NewJob::new("other", "k", "2");
                let enqueued = rig.mysql().enqueue_in(&mut session, &new).await.expect("enqueue_in");
                rig.mysql()
                    .complete_in(&mut session, "w", &completion(job.proof))
                    .await
                    .expect("complete_in");
                let sql = rig.sql(&format!("SELECT COUNT(*) FROM turno.job WHERE id = {}", enqueued.id));
                assert_eq!(owner.query_first(&sql).await.expect("a count"), Some(0), "seen before the end");
                session.query_drop(end).await.expect("an end");
                let there = i64::from(end == "COMMIT");
                assert_eq!(
                    owner.query_first(&sql).await.expect("a count"),
                    Some(there),
                    "{server} {begin} {end}"
                );
                let record = rig.mysql().job(job.proof.job).await.expect("job").expect("a record");
                assert_eq!(record.state, state, "{server} {begin} {end}");
            }
        }
    }
}

/// Rule C10: a session without autocommit may claim again and again, since no claim leaves a transaction open.
#[tokio::test]
async fn a_claim_without_autocommit_leaves_no_transaction_open() {
    for server in servers() {
        let (rig, _) = breakable(&server).await;
        rig.mysql().enqueue(&vec![NewJob::new("q", "k", "1"); 3]).await.expect("enqueue");
        let mut session = rig.session().await;
        session.query_drop("SET autocommit = 0").await.expect("no autocommit");
        for _ in 0..3 {
            let token = Token::random().as_uuid();
            let sql = rig.sql(&format!("CALL turno.claim('[\"q\"]', 'w', 1, 30000, '{token}', NULL, NULL)"));
            let rows: Vec<mysql_async::Row> = session.query(sql).await.expect("a claim");
            assert_eq!(rows.len(), 1);
        }
        drop(session);
        assert_eq!(
            rig.mysql().stats(std::time::Duration::from_secs(60)).await.expect("stats")[0].running.n,
            3
        );
    }
}

/// Rules S3, S5.
#[tokio::test]
async fn a_transaction_with_a_refused_settle_cannot_commit() {
    for server in servers() {
        let (rig, mut owner) = breakable(&server).await;
        rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue");
        let job = claim_one(&rig, "q").await;
        let stolen = Proof { token: Token::random(), ..job.proof };
        let session = rig.session().await;
        let mut transaction = SettlingTransaction::begin(rig.mysql(), session).await.expect("begin");
        let effect = rig.sql("INSERT INTO turno.effect VALUES (1)");
        transaction.connection().query_drop(effect.clone()).await.expect("an effect");
        let error = transaction.complete("w", &completion(stolen)).await.expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
        let error = transaction.commit().await.expect_err("no commit after a refusal");
        assert_eq!(error.kind(), ErrorKind::LeaseLost, "{error}");
        assert_eq!(rows(&mut owner, &rig, "effect").await, 0);

        let session = rig.session().await;
        let mut transaction = SettlingTransaction::begin(rig.mysql(), session).await.expect("begin");
        transaction.connection().query_drop(effect).await.expect("an effect");
        transaction.enqueue(&NewJob::new("", "k", "1")).await.expect_err("a name is missing");
        transaction.complete("w", &completion(job.proof)).await.expect("the owner's completion");
        transaction.commit().await.expect("a bad argument costs no transaction");
        assert_eq!(rows(&mut owner, &rig, "effect").await, 1);
    }
}

/// Rule X3: after a deadlock nothing is retried and nothing is undone that is not there any more.
#[tokio::test]
async fn a_deadlock_goes_up_as_it_is() {
    for server in servers() {
        let (rig, mut owner) = breakable(&server).await;
        let keyed = |key: &str| NewJob::new("q", "k", "1").idempotency_key(key);
        let (mut one, mut two) = (rig.session().await, rig.session().await);
        for session in [&mut one, &mut two] {
            session.query_drop("START TRANSACTION").await.expect("a transaction");
        }
        rig.mysql().enqueue_in(&mut one, &keyed("a")).await.expect("the first key");
        // The server rolls back whoever has written less.
        let effects = rig.sql("INSERT INTO turno.effect VALUES (1), (2), (3), (4), (5), (6), (7), (8)");
        two.query_drop(effects).await.expect("effects");
        rig.mysql().enqueue_in(&mut two, &keyed("b")).await.expect("the second key");
        let (first, second) = (keyed("b"), keyed("a"));
        let (first, second) =
            tokio::join!(rig.mysql().enqueue_in(&mut one, &first), rig.mysql().enqueue_in(&mut two, &second));
        let lost = [&first, &second].into_iter().filter_map(|result| result.as_ref().err());
        let kinds: Vec<ErrorKind> = lost.map(|error| error.kind()).collect();
        assert_eq!(kinds, [ErrorKind::TransactionLost], "{server}: {first:?} {second:?}");
        drop((one, two));
        assert_eq!(rows(&mut owner, &rig, "job").await, 0);
    }
}

/// Rules E1, E7, E9: what no column holds is refused before anything stays, also where the server calls that no exception but a
/// warning that became an error; and the session has no transaction of the routine's afterwards.
#[tokio::test]
async fn what_is_too_long_or_no_number_is_refused_whole() {
    for server in servers() {
        let (rig, mut owner) = breakable(&server).await;
        for (i, beginning) in BEGINNINGS.iter().enumerate() {
            let mut session = rig.session().await;
            for sql in *beginning {
                session.query_drop(rig.sql(sql)).await.expect("a beginning");
            }
            for call in [
                "CALL turno.enqueue(REPEAT('q', 201), 'k', '1', NULL, NULL, NULL, NULL, NULL, NULL)",
                "CALL turno.enqueue('q', 'k', '1', NULL, NULL, NULL, REPEAT('u', 513), 'i', NULL)",
                "CALL turno.enqueue_many(CONCAT('[{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"idempotency_key\":\"a\"},
                    {\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"idempotency_key\":\"', REPEAT('b', 513), '\"}]'))",
                "CALL turno.enqueue_many(CONCAT('[{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"unique_key\":\"', REPEAT('b', 1025), '\"}]'))",
                "CALL turno.enqueue_many('[{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"unique_key\":{\"a\":1}}]')",
                "CALL turno.enqueue_many('[{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"run_at\":99999999999999999999}]')",
                "CALL turno.enqueue_many('[{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"max_attempts\":99999999999999999999}]')",
                "CALL turno.enqueue_many('{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\"}')",
            ] {
                assert!(session.query_drop(rig.sql(call)).await.is_err(), "{server}: {call}");
            }
            session.query_drop("COMMIT").await.expect("the caller's own work commits");
            for table in ["job", "enqueue_key", "unique_key"] {
                assert_eq!(rows(&mut owner, &rig, table).await, 0, "{server} {beginning:?} {table}");
            }
            assert_eq!(rows(&mut owner, &rig, "effect").await, i as i64, "{server} {beginning:?}");
            session.query_drop("SET autocommit = 1").await.expect("autocommit");
            session.query_drop(rig.sql("CALL turno.reap(10, 0)")).await.expect("no transaction is open");
        }
    }
}

/// Rule E1: a session whose COMMIT begins the next transaction keeps what was accepted.
#[tokio::test]
async fn a_session_that_chains_its_transactions_loses_nothing() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut session = rig.session().await;
        session.query_drop("SET completion_type = 1").await.expect("a setting");
        for _ in 0..2 {
            let call = "CALL turno.enqueue('q', 'k', '1', NULL, NULL, NULL, NULL, NULL, NULL)";
            session.query_drop(rig.sql(call)).await.expect("enqueue");
        }
        drop(session);
        assert_eq!(rows(&mut rig.session().await, &rig, "job").await, 2, "{server}");
    }
}

/// Until some session of the server waits for a lock. The table innodb_trx would name it, but shows nothing new to who reads it more
/// often than every 100 ms.
async fn somebody_waits_for_a_lock(rig: &MysqlRig) {
    let sql = "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_current_waits'";
    let mut owner = rig.session().await;
    let waiting = async {
        while owner.query_first::<(String, i64), _>(sql).await.expect("a status").expect("a row").1 == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("it waits");
}

/// Rule P7: what a retry has just brought back keeps its attempts and its key.
#[tokio::test]
async fn a_job_that_is_retried_meanwhile_is_not_forgotten() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let job = NewJob::new("q", "k", "1").idempotency_key("i");
        let id = rig.mysql().enqueue(&[job]).await.expect("enqueue")[0].id;
        let claimed = claim_one(&rig, "q").await;
        rig.mysql()
            .fail("w", &[Failure { proof: claimed.proof, error: "broken".to_owned(), retry: Retry::Never }])
            .await
            .expect("a failure");
        let mut retrying = rig.session().await;
        retrying.query_drop("START TRANSACTION").await.expect("a transaction");
        retrying.query_drop(rig.sql(&format!("CALL turno.retry({id})"))).await.expect("a retry");
        let mut forgetting = rig.session().await;
        let call = rig.sql(&format!("CALL turno.forget({id})"));
        let forgotten = tokio::spawn(async move { forgetting.query_drop(call).await });
        somebody_waits_for_a_lock(&rig).await;
        retrying.query_drop("COMMIT").await.expect("the retry commits");
        let error = forgotten.await.expect("no panic").expect_err("it has not ended");
        assert!(error.to_string().contains("has not ended"), "{server}: {error}");
        let mut owner = rig.session().await;
        assert_eq!(rows(&mut owner, &rig, "enqueue_key").await, 1, "{server}");
        assert_eq!(rows(&mut owner, &rig, "attempt").await, 1, "{server}");
    }
}
