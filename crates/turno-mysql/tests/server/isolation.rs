//! Gap locks, old snapshots, and sessions with settings of their own.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use turno_contract::{
    Backend, Beat, ClaimRequest, Completion, ErrorKind, JobId, NewJob, Proof, SettledStatus, Token,
};

use crate::rig::{MysqlRig, servers};

const PATIENCE: Duration = Duration::from_secs(20);

async fn begun(rig: &MysqlRig, level: &str) -> Conn {
    let mut session = rig.session().await;
    let sql = format!("SET SESSION TRANSACTION ISOLATION LEVEL {level}");
    session.query_drop(sql).await.expect("a level");
    session.query_drop("START TRANSACTION").await.expect("a transaction");
    session
}

async fn enqueues(rig: &MysqlRig) {
    let new = [NewJob::new("elsewhere", "k", "1")];
    let enqueue = rig.mysql().enqueue(&new);
    tokio::time::timeout(PATIENCE, enqueue).await.expect("no enqueue waits").expect("enqueue");
}

/// Rules S3, E1: an absent row is not looked for with a lock, which would stop every enqueue under REPEATABLE READ.
#[tokio::test]
async fn a_stale_completion_in_an_open_transaction_blocks_no_enqueue() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        rig.mysql().enqueue(&vec![NewJob::new("q", "k", "1"); 2]).await.expect("enqueue");
        let claimed = rig.mysql().claim(&ClaimRequest::one("q", "w").limit(2)).await.expect("claim");
        for job in &claimed.jobs {
            let done = Completion { proof: job.proof, result: None };
            rig.mysql().complete("w", &[done]).await.expect("complete");
        }
        for level in ["REPEATABLE READ", "READ COMMITTED"] {
            let mut session = begun(&rig, level).await;
            let stolen = Proof { token: Token::random(), ..claimed.jobs[1].proof };
            let stale = Completion { proof: stolen, result: None };
            let error = rig.mysql().complete_in(&mut session, "w", &stale).await.expect_err("a refusal");
            assert_eq!(error.kind(), ErrorKind::LeaseLost, "{server} {level}: {error}");
            enqueues(&rig).await;
            session.query_drop("ROLLBACK").await.expect("the end");
        }
    }
}

/// Rules E1, E5: who waits for a unique key, or holds one, is in nobody's way who has none.
#[tokio::test]
async fn a_unique_key_in_an_open_transaction_blocks_no_job_without_one() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let keyed = |key: &str| NewJob::new("q", "k", "1").unique_key(key);
        rig.mysql().enqueue(&[keyed("taken")]).await.expect("enqueue");
        for level in ["REPEATABLE READ", "READ COMMITTED"] {
            let mut session = begun(&rig, level).await;
            for (key, created) in [("taken", false), ("new", true)] {
                let answer = rig.mysql().enqueue_in(&mut session, &keyed(key)).await.expect("enqueue_in");
                assert_eq!(answer.created, created, "{server} {level} {key}");
            }
            for jobs in [1, 3] {
                let new = vec![NewJob::new("q", "k", "1"); jobs];
                let enqueue = tokio::time::timeout(PATIENCE, rig.mysql().enqueue(&new));
                enqueue.await.expect("no enqueue waits").expect("enqueue");
            }
            session.query_drop("ROLLBACK").await.expect("the end");
        }
    }
}

/// Rules P1, P4.
#[tokio::test]
async fn asking_for_an_absent_job_in_an_open_transaction_blocks_no_enqueue() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut session = begun(&rig, "REPEATABLE READ").await;
        for call in ["cancel(9000, FALSE)", "reprioritize(9000, 1)", "retry(9000)", "forget(9000)"] {
            let sql = rig.sql(&format!("CALL turno.{call}"));
            let error = session.query_drop(sql).await.expect_err("there is no such job");
            assert!(error.to_string().contains("there is no job 9000"), "{error}");
        }
        enqueues(&rig).await;
    }
}

/// Rule S5: a transaction whose snapshot is older than the job's claim completes it all the same.
#[tokio::test]
async fn an_old_snapshot_does_not_refuse_the_owner() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut session = begun(&rig, "REPEATABLE READ").await;
        let look = rig.sql("SELECT COUNT(*) FROM turno.job");
        session.query_drop(look).await.expect("a snapshot");
        rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue");
        let job = rig.mysql().claim(&ClaimRequest::one("q", "w")).await.expect("claim").jobs.remove(0);
        let done = Completion { proof: job.proof, result: None };
        let settled = rig.mysql().complete_in(&mut session, "w", &done).await;
        // MariaDB may be set to call an old snapshot lost instead.
        if let Err(error) = &settled {
            assert_eq!(error.kind(), ErrorKind::TransactionLost, "{server}: {error}");
            continue;
        }
        session.query_drop("COMMIT").await.expect("commit");
    }
}

/// Rules S4, X3: a snapshot that is older than the job's end cannot tell a repeat from a theft. It is lost, and no refusal is written.
#[tokio::test]
async fn a_repeat_in_an_old_snapshot_is_no_theft() {
    for server in servers() {
        for claimed_before in [true, false] {
            let rig = MysqlRig::on(&server).await;
            rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue");
            let mut session = begun(&rig, "REPEATABLE READ").await;
            let look = rig.sql("SELECT COUNT(*) FROM turno.job");
            if !claimed_before {
                session.query_drop(&look).await.expect("a snapshot");
            }
            let job = rig.mysql().claim(&ClaimRequest::one("q", "w")).await.expect("claim").jobs.remove(0);
            session.query_drop(&look).await.expect("a snapshot");
            let done = Completion { proof: job.proof, result: None };
            rig.mysql().complete("w", std::slice::from_ref(&done)).await.expect("complete");
            let error = rig.mysql().complete_in(&mut session, "w", &done).await.expect_err("an old snapshot");
            assert_eq!(error.kind(), ErrorKind::TransactionLost, "{server} {claimed_before}: {error}");
            session.query_drop("ROLLBACK").await.expect("the end");
            assert_eq!(rig.mysql().refused(None, None, 10).await.expect("the ledger"), vec![], "{server}");
            session.query_drop("START TRANSACTION").await.expect("a transaction");
            let again = rig.mysql().complete_in(&mut session, "w", &done).await.expect("a repeat");
            assert_eq!(again.status, SettledStatus::Already, "{server} {claimed_before}");
        }
    }
}

/// Rule T1: who sets a clock of its own is refused, so that no live lease is reaped.
#[tokio::test]
async fn a_session_with_a_clock_of_its_own_is_refused() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue");
        let job = rig.mysql().claim(&ClaimRequest::one("q", "w")).await.expect("claim").jobs.remove(0);
        let enqueue = "CALL turno.enqueue('q', 'k', '1', NULL, NULL, NULL, NULL, NULL, NULL)";
        let mut session = rig.session().await;
        session.query_drop("SET timestamp = UNIX_TIMESTAMP() + 86400").await.expect("a clock");
        for call in ["CALL turno.reap(1000, 0)", enqueue, "CALL turno.prune(1000)", "CALL turno.pause('q')"] {
            let error = session.query_drop(rig.sql(call)).await.expect_err(call);
            assert!(error.to_string().contains("a clock of its own"), "{server} {call}: {error}");
        }
        session.query_drop("SET timestamp = DEFAULT").await.expect("the server's clock");
        session.query_drop(rig.sql(enqueue)).await.expect("enqueue");
        let held = rig.mysql().held(job.proof.token).await.expect("held");
        assert_eq!(held.len(), 1, "{server}");
    }
}

/// Rules C2, C3: a claim locks no gap, whatever the session's default is, so that an enqueue beside it goes through.
#[tokio::test]
async fn a_claim_is_at_read_committed_whatever_the_session_says() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut session = rig.session().await;
        session.query_drop("SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE").await.expect("a level");
        for n in 0..20 {
            rig.mysql().enqueue(&[NewJob::new("q", "k", n.to_string())]).await.expect("enqueue");
            let token = Token::random().as_uuid();
            let sql = rig.sql(&format!("CALL turno.claim('[\"q\"]', 'w', 5, 30000, '{token}', NULL, NULL)"));
            let rows: Vec<Row> = session.query(sql).await.expect("a claim");
            assert_eq!(rows.len(), 1, "{server}");
        }
    }
}

/// Rules E8, T1: names, payload and times are the same whatever the session's character set, time zone and sql_mode are.
#[tokio::test]
async fn a_session_with_odd_settings_enqueues_the_same_job() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut session = rig.session().await;
        for sql in [
            "SET SESSION sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT,PAD_CHAR_TO_FULL_LENGTH'",
            "SET time_zone = '+05:00'",
            "SET NAMES latin1",
        ] {
            // The last of these modes is gone in newer servers.
            let kept = sql.replace(",PAD_CHAR_TO_FULL_LENGTH", "");
            if session.query_drop(sql).await.is_err() {
                session.query_drop(kept).await.expect("a setting");
            }
        }
        // 0xE9 is é in latin1.
        let mut sql = rig
            .sql("CALL turno.enqueue('caf_', 'k ', '{\"x\": \"_ \\u0000\"}', NULL, NULL, NULL, NULL, NULL, NULL)")
            .into_bytes();
        sql.iter_mut()
            .filter(|byte| **byte == b'_')
            .skip(rig.schema().matches('_').count())
            .for_each(|byte| *byte = 0xE9);
        let row: Row = session.query_first(sql).await.expect("enqueue").expect("a row");
        let id: i64 = row.get("id").expect("an id");
        let job = rig.mysql().job(JobId(id)).await.expect("job").expect("a record");
        assert_eq!((job.queue.as_str(), job.kind.as_str()), ("café", "k "), "{server}");
        assert_eq!(job.payload.as_deref(), Some("{\"x\": \"é \\u0000\"}"), "{server}");
        let other = rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue")[0].id;
        let other = rig.mysql().job(other).await.expect("job").expect("a record");
        assert!((other.created_at - job.created_at).abs() < time::Duration::seconds(60), "{server}");
    }
}

/// Rules H2, S1: on a table so small that reading it whole looks cheap, a batch still locks its own jobs alone.
#[tokio::test]
async fn a_batch_locks_no_job_but_its_own() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        rig.mysql().enqueue(&vec![NewJob::new("q", "k", "1"); 3]).await.expect("enqueue");
        let jobs = rig.mysql().claim(&ClaimRequest::one("q", "w").limit(3)).await.expect("claim").jobs;
        let mut session = begun(&rig, "READ COMMITTED").await;
        let hold = format!("SELECT id FROM turno.job WHERE id = {} FOR UPDATE", jobs[2].proof.job);
        session.query_drop(rig.sql(&hold)).await.expect("the last job is held");
        let beats: Vec<Beat> = jobs[..2].iter().map(|job| Beat { proof: job.proof, started: true }).collect();
        let kept = rig.mysql().heartbeat(&beats, Duration::from_secs(60));
        tokio::time::timeout(PATIENCE, kept).await.expect("no heartbeat waits").expect("heartbeat");
        let done: Vec<Completion> =
            jobs[..2].iter().map(|job| Completion { proof: job.proof, result: None }).collect();
        let complete = rig.mysql().complete("w", &done);
        tokio::time::timeout(PATIENCE, complete).await.expect("no completion waits").expect("complete");
    }
}

/// Rule E12: the SQL API drops what is no traceparent, whatever it is, and enqueues.
#[tokio::test]
async fn the_sql_api_drops_a_malformed_traceparent() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut session = rig.session().await;
        let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
        let last = &good[..54];
        let texts = [
            (good.to_owned(), true),
            (good.to_uppercase(), false),
            (format!("{last}\\n"), false),
            (format!("{good}\\n"), false),
            (format!("{good}-more"), false),
            (good.replacen("00", "ff", 1), false),
            (good.replace("b7ad6b7169203331", &"0".repeat(16)), false),
            ("é".repeat(500), false),
            (String::new(), false),
        ];
        for (text, kept) in texts {
            let row = format!(r#"{{"queue":"q","kind":"k","payload":"1","traceparent":"{text}"}}"#);
            let keyed = row.replace("\"queue\"", "\"unique_key\":\"u\",\"queue\"");
            for sql in [
                format!("CALL turno.enqueue('q', 'k', '1', NULL, NULL, NULL, NULL, NULL, '{text}')"),
                format!("CALL turno.enqueue_many('[{}]')", row.replace('\\', "\\\\")),
                format!("CALL turno.enqueue_many('[{}]')", keyed.replace('\\', "\\\\")),
            ] {
                let row: Row = session.query_first(rig.sql(&sql)).await.expect(&sql).expect("a row");
                let id = JobId(row.get("id").expect("an id"));
                let job = rig.mysql().job(id).await.expect("job").expect("a record");
                let expected = kept.then_some(good);
                assert_eq!(job.traceparent.as_deref(), expected, "{server}: {sql}");
                rig.mysql().cancel(id, false).await.expect("cancel");
            }
        }
        for other in ["7", "{\"a\": 1}", "null", "[1]"] {
            let row = format!(r#"[{{"queue":"q","kind":"k","payload":"1","traceparent":{other}}}]"#);
            let sql = rig.sql(&format!("CALL turno.enqueue_many('{row}')"));
            session.query_drop(sql).await.unwrap_or_else(|error| panic!("{server}: {other}: {error}"));
        }
    }
}
