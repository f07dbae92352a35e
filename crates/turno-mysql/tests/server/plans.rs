//! What the operations read: a number of rows that depends on what was asked for, and never on how much lies beside it.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Row};
use serde_json::json;
use time::OffsetDateTime;
use turno_contract::{Backend, ClaimRequest, ClaimedJob, NewJob, Token};

use crate::rig::{MysqlRig, servers};

/// Jobs of one measured call.
const ASKED: usize = 100;
/// Rows that one of these jobs may cost: each step of a routine finds it once, and reads it once more from a temporary table.
const READS_PER_JOB: i64 = 40;

/// The answer, and how many rows the server read for it, in tables and in temporary ones.
async fn reads(session: &mut Conn, sql: &str) -> (Vec<Row>, i64) {
    session.query_drop("FLUSH STATUS").await.expect("counters at zero");
    let rows = session.query(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
    let counters: Vec<(String, i64)> =
        session.query("SHOW SESSION STATUS LIKE 'Handler_read%'").await.expect("counters");
    (rows, counters.iter().map(|(_, count)| count).sum())
}

async fn claim_all(rig: &MysqlRig, queue: &str, jobs: usize) -> Vec<ClaimedJob> {
    let mut claimed = Vec::new();
    while claimed.len() < jobs {
        let request = ClaimRequest::one(queue, "w").limit(1000).lease(Duration::from_secs(600));
        let more = rig.mysql().claim(&request).await.expect("a claim").jobs;
        assert!(!more.is_empty(), "{} of {jobs} jobs", claimed.len());
        claimed.extend(more);
    }
    claimed
}

/// So many jobs that are ready, scheduled, running and ended, around those that the calls are about.
async fn surroundings(rig: &MysqlRig, others: usize) {
    let later = OffsetDateTime::now_utc() + Duration::from_secs(3600);
    let job = || NewJob::new("q", "other", "1");
    for jobs in [vec![job(); others], vec![job().run_at(later); others]] {
        rig.mysql().enqueue(&jobs).await.expect("enqueue");
    }
    rig.mysql().enqueue(&vec![NewJob::new("busy", "other", "1"); others]).await.expect("enqueue");
    claim_all(rig, "busy", others).await;
    // Those that the reaper and the promoter shall find, and no claim before.
    rig.mysql().enqueue(&vec![NewJob::new("lost", "lost", "1"); ASKED]).await.expect("enqueue");
    claim_all(rig, "lost", ASKED).await;
    let due = NewJob::new("due", "due", "1").run_at(later);
    rig.mysql().enqueue(&vec![due; ASKED]).await.expect("enqueue");
    let mut owner = rig.session().await;
    for sql in [
        "UPDATE turno.job SET lease_until = 1 WHERE kind = 'lost'",
        "UPDATE turno.job SET run_at = 1 WHERE kind = 'due'",
    ] {
        owner.query_drop(rig.sql(sql)).await.expect("rows age");
    }
}

/// Every operation that a worker repeats, with what it read.
async fn measured(rig: &MysqlRig) -> Vec<(&'static str, i64)> {
    let mut session = rig.session().await;
    let token = Token::random().as_uuid();
    let mut found = Vec::new();
    let mut proofs = Vec::new();
    for (name, sql) in [
        ("promote", format!("CALL turno.promote('[\"due\"]', {ASKED})")),
        ("reap", format!("CALL turno.reap({ASKED}, 0)")),
        ("claim", format!("CALL turno.claim('[\"q\"]', 'w', {ASKED}, 600000, '{token}', NULL, NULL)")),
    ] {
        let (rows, read) = reads(&mut session, &rig.sql(&sql)).await;
        found.push((name, read));
        if name != "promote" {
            assert_eq!(rows.len(), ASKED, "{name}");
        }
        proofs = rows.iter().filter_map(|row| row.get_opt::<i64, _>("id")?.ok()).collect();
    }
    let batch = |from: usize, to: usize| {
        let proofs: Vec<_> = proofs[from..to]
            .iter()
            .map(|id: &i64| json!({"job": id, "attempt": 1, "token": token.to_string(), "error": "no"}))
            .collect();
        json!(proofs).to_string()
    };
    for (name, sql) in [
        ("held", format!("CALL turno.held('{token}')")),
        ("heartbeat", format!("CALL turno.heartbeat('{}', 600000)", batch(0, ASKED))),
        ("complete", format!("CALL turno.complete_many('{}', 'w')", batch(0, 60))),
        ("fail", format!("CALL turno.fail_many('{}', 'w')", batch(60, 80))),
        ("release", format!("CALL turno.release_many('{}', 'w')", batch(80, ASKED))),
    ] {
        found.push((name, reads(&mut session, &rig.sql(&sql)).await.1));
    }
    found
}

/// Rules V6, V7: a search for what is not there looks at ten thousand jobs and no further; one by a key, at nothing else.
#[tokio::test]
async fn a_search_reads_a_bounded_number_of_rows() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        rig.mysql().enqueue(&vec![NewJob::new("q", "k", "1"); 30_000]).await.expect("enqueue");
        let mut owner = rig.session().await;
        let ended = "INSERT INTO turno.finished_job (id, queue, kind, outcome, priority, attempt, failures, max_attempts, max_run_ms,
                         operation_id, charged, run_at, first_due_at, created_at, finished_at)
                     SELECT id, queue, kind, IF(id % 2 = 0, 'dead', 'succeeded'), 0, 1, 0, 20, 1000, operation_id, FALSE, run_at, run_at,
                         run_at, run_at
                     FROM turno.job";
        owner.query_drop(rig.sql(ended)).await.expect("ended jobs");
        for (sql, most) in [
            ("CALL turno.jobs('ready', NULL, 'none', NULL, 100)", 42_000),
            ("CALL turno.jobs('ready', 'none', NULL, NULL, 100)", 22_000),
            ("CALL turno.jobs('scheduled', NULL, NULL, NULL, 100)", 22_000),
            ("CALL turno.jobs('succeeded', NULL, 'none', NULL, 100)", 22_000),
            ("CALL turno.jobs('dead', 'q', 'none', NULL, 100)", 42_000),
            ("CALL turno.jobs('ready', NULL, NULL, NULL, 100)", 12_000),
            ("CALL turno.find('none', NULL, NULL, 100)", 300),
            ("CALL turno.find('none', 'q', NULL, 100)", 300),
        ] {
            let (_, read) = reads(&mut owner, &rig.sql(sql)).await;
            assert!(read <= most, "{server}: {sql} read {read} rows");
        }
    }
}

/// Rules C1, H1, S1, R1: a hundred times as many rows beside them change nothing, on a table whose statistics are old and on one
/// whose are fresh.
#[tokio::test]
async fn no_operation_reads_what_lies_beside_its_rows() {
    for server in servers() {
        let mut small = Vec::new();
        for others in [ASKED, 100 * ASKED] {
            let rig = MysqlRig::on(&server).await;
            surroundings(&rig, others).await;
            if others > ASKED {
                let analyze = rig.sql("ANALYZE TABLE turno.job, turno.finished_job, turno.attempt");
                rig.session().await.query_drop(analyze).await.expect("statistics");
            }
            let found = measured(&rig).await;
            for (name, read) in &found {
                let most = READS_PER_JOB * ASKED as i64;
                assert!(
                    (1..most).contains(read),
                    "{server}: {name} beside {others} read {read} rows: {found:?}"
                );
            }
            if small.is_empty() {
                small = found;
                continue;
            }
            for ((name, few), (_, many)) in small.iter().zip(&found) {
                let most = few + few / 4 + 50;
                assert!(*many <= most, "{server}: {name} read {few} rows, and {many} beside {others}");
            }
        }
    }
}
