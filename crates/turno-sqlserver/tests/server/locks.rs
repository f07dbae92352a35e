//! Whom nobody waits for, and what a claim reads (rules C2, E5; known fault B62). `sql/LOCKS.md` says why.

use std::time::Duration;

use turno_contract::{Backend, ClaimRequest, Completion, NewJob};

use crate::number;
use crate::rig::{SqlServerRig, run};

/// Longer than anything here takes that does not wait for a transaction left open.
const LIMIT: Duration = Duration::from_secs(20);

async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(LIMIT, future).await.unwrap_or_else(|_| panic!("{what} waits"))
}

/// B62: no table lock, and none of a range.
pub async fn an_open_enqueue_locks_no_range_and_no_table(rig: SqlServerRig) {
    let mut caller = rig.session().await;
    run(&mut caller, "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRANSACTION")
        .await
        .expect("a beginning");
    let many: Vec<String> = (0..1000)
        .map(|n| format!(r#"{{"queue":"q","kind":"k","payload":"{n}","unique_key":"{n}"}}"#))
        .collect();
    for _ in 0..10 {
        let plain = many.join(",").replace("unique_key", "ignored");
        run(&mut caller, &rig.sql(&format!("EXEC turno.enqueue_many N'[{plain}]'"))).await.expect("jobs");
    }
    run(&mut caller, &rig.sql(&format!("EXEC turno.enqueue_many N'[{}]'", many.join(","))))
        .await
        .expect("jobs");
    let locks = |condition: &str| {
        format!(
            "SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_database_id = DB_ID() AND {condition}"
        )
    };
    let ranges = number(&mut caller, &locks("request_mode LIKE 'Range%'")).await;
    let tables =
        number(&mut caller, &locks("resource_type = 'OBJECT' AND request_mode NOT IN ('IS', 'IX', 'Sch-S')"))
            .await;
    assert_eq!((ranges, tables), (Some(0), Some(0)));
    let backend = rig.sqlserver();
    within("an enqueue", backend.enqueue(&[NewJob::new("q", "k", "1")])).await.expect("an enqueue");
    let claim = ClaimRequest::one("q", "w").limit(10);
    assert_eq!(within("a claim", backend.claim(&claim)).await.expect("a claim").jobs.len(), 1);
}

/// Rules E4, E5.
pub async fn other_keys_do_not_wait_for_an_open_transaction(rig: SqlServerRig) {
    let backend = rig.sqlserver();
    let mut caller = rig.session().await;
    run(&mut caller, "BEGIN TRANSACTION").await.expect("a beginning");
    let enqueue = |key: &str| {
        rig.sql(&format!(
            "EXEC turno.enqueue N'q', N'k', N'1', @unique_key = N'{key}', @idempotency_key = N'{key}'"
        ))
    };
    run(&mut caller, &enqueue("m")).await.expect("an enqueue");
    for key in ["a", "l", "n", "z"] {
        let job = NewJob::new("q", "k", "1").unique_key(key).idempotency_key(key);
        assert!(within(key, backend.enqueue(&[job])).await.expect("an enqueue")[0].created, "{key}");
    }
}

/// Rules E5, S1.
pub async fn a_completion_does_not_wait_for_who_found_its_job(rig: SqlServerRig) {
    let backend = rig.sqlserver();
    backend.enqueue(&[NewJob::new("q", "k", "1").unique_key("u")]).await.expect("an enqueue");
    let job = backend.claim(&ClaimRequest::one("q", "w")).await.expect("a claim").jobs.remove(0);
    let mut caller = rig.session().await;
    run(&mut caller, "BEGIN TRANSACTION").await.expect("a beginning");
    run(&mut caller, &rig.sql("EXEC turno.enqueue N'q', N'k', N'1', @unique_key = N'u'"))
        .await
        .expect("it is found");
    let completion = Completion { proof: job.proof, result: None };
    within("the completion", backend.complete("w", &[completion])).await.expect("a completion");
}

/// Rule C1: the plan that sql/LOCKS.md asks for. Needs the right to see the server's state.
pub async fn a_claim_reads_no_more_when_the_table_grows(rig: SqlServerRig) {
    let backend = rig.sqlserver();
    let mut owner = rig.session().await;
    let mut total = 0usize;
    for size in [20usize, 2_000, 50_000] {
        let jobs = vec![NewJob::new("q", "k", "1"); size - total];
        backend.enqueue(&jobs).await.expect("jobs");
        total = size;
        let claim = ClaimRequest::one("q", "w").limit(10);
        let jobs = backend.claim(&claim).await.expect("a claim").jobs;
        assert_eq!(jobs.len(), 10);
        total -= 10;
        let reads = rig.sql(
            "SELECT MAX(s.last_logical_reads) FROM sys.dm_exec_query_stats s \
             CROSS APPLY sys.dm_exec_sql_text(s.sql_handle) t \
             WHERE t.objectid = OBJECT_ID(N'turno.claim_take') AND t.dbid = DB_ID()",
        );
        let reads = number(&mut owner, &reads).await.expect("the claim was counted");
        assert!(reads < 1_000, "at {size} jobs a claim of 10 read {reads} pages");
    }
}
