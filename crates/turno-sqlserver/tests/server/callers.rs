//! The session and the transaction of whoever calls (rules E1, S5, C10, X3; known fault B29).

use turno_contract::{Backend, ClaimRequest, Completion, NewJob};

use crate::number;
use crate::rig::{SqlServerRig, run};

const LEVELS: [&str; 4] = ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"];

/// What a session calls: each once, with nothing to find.
const CALLS: [&str; 10] = [
    "EXEC turno.claim N'[\"nobody\"]', N'w', 10, 1000, '11111111-1111-1111-1111-111111111111'",
    "EXEC turno.reap 10, 0",
    "EXEC turno.promote NULL, 10",
    "EXEC turno.prune 10",
    "EXEC turno.rerank N'', 0, 10",
    "EXEC turno.heartbeat N'[]', 1000",
    "EXEC turno.stats 1000",
    "EXEC turno.queue_list",
    "EXEC turno.audit",
    "EXEC turno.unhandled N'q'",
];

async fn allow_snapshot(rig: &SqlServerRig) {
    let mut owner = rig.session().await;
    run(&mut owner, "ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
        .await
        .expect("an option of the database");
}

/// Rules C1, C10: never error 650 from a session that was set otherwise.
pub async fn every_operation_works_at_every_level_of_the_session(rig: SqlServerRig) {
    allow_snapshot(&rig).await;
    for level in LEVELS.into_iter().chain(["SNAPSHOT"]) {
        let mut session = rig.session().await;
        run(&mut session, &format!("SET TRANSACTION ISOLATION LEVEL {level}")).await.expect("a level");
        let enqueue = "EXEC turno.enqueue N'q', N'k', N'1', @unique_key = N'u', @idempotency_key = N'i'";
        for call in [enqueue].into_iter().chain(CALLS) {
            let answer = run(&mut session, &rig.sql(call)).await;
            assert_eq!(answer, Ok(()), "{level}: {call}");
        }
        let claim = "EXEC turno.claim N'[\"q\"]', N'w', 10, 1000, '22222222-2222-2222-2222-222222222222'";
        run(&mut session, &rig.sql(claim)).await.unwrap_or_else(|error| panic!("{level}: {error}"));
        assert_eq!(number(&mut session, "SELECT @@TRANCOUNT").await, Some(0), "{level}");
    }
}

/// Rule E1.
pub async fn a_transaction_of_any_level_but_snapshot_is_joined_and_keeps_its_level(rig: SqlServerRig) {
    for (i, level) in LEVELS.into_iter().enumerate() {
        let mut session = rig.session().await;
        let enqueue = rig.sql(&format!("EXEC turno.enqueue N'q{i}', N'k', N'1', @unique_key = N'u'"));
        let count = rig.sql(&format!(
            "SELECT COUNT(*) FROM turno.unfinished_job WHERE queue = CONVERT(varbinary(400), N'q{i}')"
        ));
        for (end, jobs) in [("ROLLBACK TRANSACTION", 0), ("COMMIT TRANSACTION", 1)] {
            let begin = format!("SET TRANSACTION ISOLATION LEVEL {level}; BEGIN TRANSACTION");
            for sql in [begin.as_str(), enqueue.as_str()] {
                run(&mut session, sql).await.unwrap_or_else(|error| panic!("{level}: {error}"));
            }
            let now =
                "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID";
            assert_eq!(number(&mut session, now).await, Some(i as i64 + 1), "{level}");
            run(&mut session, end).await.expect("an end");
            assert_eq!(number(&mut session, &count).await, Some(jobs), "{level} {end}");
        }
    }
}

/// Rule C10. B29.
pub async fn a_transaction_at_snapshot_is_refused_before_anything_is_written(rig: SqlServerRig) {
    allow_snapshot(&rig).await;
    let calls = ["EXEC turno.enqueue N'q', N'k', N'1'", "EXEC turno.job 1", "EXEC turno.pause N'q'"];
    for call in calls.into_iter().chain(CALLS) {
        let mut session = rig.session().await;
        run(&mut session, "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; BEGIN TRANSACTION")
            .await
            .expect("a beginning");
        let error = run(&mut session, &rig.sql(call)).await.expect_err("it is refused");
        assert!(error.contains("53102") || error.contains("refuses"), "{call}: {error}");
    }
    let mut session = rig.session().await;
    assert_eq!(number(&mut session, &rig.sql("SELECT COUNT(*) FROM turno.unfinished_job")).await, Some(0));
}

/// Rules E1, S5.
pub async fn a_doomed_transaction_is_refused_by_our_own_number(rig: SqlServerRig) {
    let calls = [
        "EXEC turno.enqueue N'q', N'k', N'1'",
        "EXEC turno.complete 1, 1, '11111111-1111-1111-1111-111111111111'",
        "EXEC turno.cancel 1",
    ];
    for call in calls {
        let mut session = rig.session().await;
        let sql = rig.sql(&format!(
            "SET XACT_ABORT ON; BEGIN TRANSACTION;
             BEGIN TRY SELECT 1 / 0; END TRY
             BEGIN CATCH
                 BEGIN TRY {call}; END TRY
                 BEGIN CATCH
                     DECLARE @number int = ERROR_NUMBER(), @state int = XACT_STATE();
                     ROLLBACK TRANSACTION;
                     IF @number <> 53102 OR @state <> -1 THROW 50000, N'another error', 1;
                 END CATCH;
             END CATCH"
        ));
        assert_eq!(run(&mut session, &sql).await, Ok(()), "{call}");
    }
}

/// Rules E1, S3: a caller who catches finds the session as it was.
pub async fn an_error_leaves_no_transaction_of_ours_open(rig: SqlServerRig) {
    let calls = [
        "EXEC turno.enqueue N'', N'k', N'1'",
        "EXEC turno.enqueue_many N'[{\"queue\":\"q\",\"kind\":\"k\",\"payload\":\"1\",\"unique_key\":\"u\"},{\"queue\":\"q\"}]'",
        "EXEC turno.complete 1, 1, '11111111-1111-1111-1111-111111111111'",
        "EXEC turno.claim N'[]', N'w', 1, 1000, '11111111-1111-1111-1111-111111111111'",
        "EXEC turno.cancel 1",
        "EXEC turno.retry 1",
    ];
    for call in calls {
        let mut session = rig.session().await;
        let caught = rig.sql(&format!("BEGIN TRY {call}; END TRY BEGIN CATCH END CATCH"));
        run(&mut session, &caught).await.unwrap_or_else(|error| panic!("{call}: {error}"));
        assert_eq!(number(&mut session, "SELECT @@TRANCOUNT").await, Some(0), "{call}");
        assert_eq!(
            number(&mut session, &rig.sql("SELECT COUNT(*) FROM turno.unfinished_job")).await,
            Some(0)
        );
    }
}

/// Rules E1, C10: this is how JDBC works with autocommit off.
pub async fn an_implicit_transaction_is_joined_by_an_enqueue_and_not_by_a_claim(rig: SqlServerRig) {
    let count = rig.sql("SELECT COUNT(*) FROM turno.unfinished_job WITH (READCOMMITTEDLOCK)");
    let enqueue = rig.sql("EXEC turno.enqueue N'q', N'k', N'1'");
    let mut session = rig.session().await;
    run(&mut session, "SET IMPLICIT_TRANSACTIONS ON").await.expect("a setting");
    run(&mut session, &enqueue).await.expect("an enqueue");
    run(&mut session, "ROLLBACK TRANSACTION").await.expect("there is a transaction");
    assert_eq!(number(&mut rig.session().await, &count).await, Some(0));
    run(&mut session, &enqueue).await.expect("an enqueue");
    run(&mut session, "WHILE @@TRANCOUNT > 0 COMMIT TRANSACTION").await.expect("there is a transaction");
    assert_eq!(number(&mut rig.session().await, &count).await, Some(1));
    let claim = "EXEC turno.claim N'[\"q\"]', N'w', 1, 1000, '11111111-1111-1111-1111-111111111111'";
    run(&mut session, &rig.sql(claim)).await.expect("a claim");
    let running = rig.sql("SELECT COUNT(*) FROM turno.unfinished_job WITH (READPAST, READCOMMITTEDLOCK) WHERE state = 'running'");
    assert_eq!(number(&mut rig.session().await, &running).await, Some(1), "the claim has committed");
}

/// Filtered indexes refuse statements of a session with these settings (error 1934), if a routine does not set them itself.
pub async fn the_settings_of_old_clients_are_no_hindrance(rig: SqlServerRig) {
    let mut session = rig.session().await;
    run(
        &mut session,
        "SET ANSI_WARNINGS, ANSI_PADDING, ANSI_NULLS, QUOTED_IDENTIFIER, ARITHABORT, CONCAT_NULL_YIELDS_NULL OFF; \
         SET NUMERIC_ROUNDABORT ON; SET LANGUAGE French; SET DATEFORMAT dmy",
    )
    .await
    .expect("settings");
    let token = "11111111-1111-1111-1111-111111111111";
    for call in [
        "EXEC turno.enqueue N'q', N'k', N'1', @unique_key = N'u'".to_owned(),
        format!("EXEC turno.claim N'[\"q\"]', N'w', 1, 30000, '{token}'"),
        format!("EXEC turno.heartbeat N'[{{\"job\":1,\"attempt\":1,\"token\":\"{token}\"}}]', 30000"),
        format!(
            "EXEC turno.fail_many N'[{{\"job\":1,\"attempt\":1,\"token\":\"{token}\",\"error\":\"no\",\"retry_ms\":0}}]', N'w'"
        ),
        "EXEC turno.cancel 1".to_owned(),
    ] {
        assert_eq!(run(&mut session, &rig.sql(&call)).await, Ok(()), "{call}");
    }
    let ended =
        rig.sql("SELECT COUNT(*) FROM turno.finished_job WHERE outcome = 'cancelled' AND failures = 1");
    assert_eq!(number(&mut session, &ended).await, Some(1));
}

pub async fn a_second_migration_finds_nothing_to_do(rig: SqlServerRig) {
    let backend = rig.sqlserver();
    for check in [true, false] {
        let report = backend.migrate(check).await.expect("a migration");
        assert!(report.applied.is_empty() && report.operations.is_empty(), "{report:?}");
        assert_eq!(report.version_before, Some(report.version));
    }
    backend.enqueue(&[NewJob::new("q", "k", "1")]).await.expect("it still works");
    let jobs = backend.claim(&ClaimRequest::one("q", "w")).await.expect("a claim").jobs;
    let completion = Completion { proof: jobs[0].proof, result: None };
    backend.complete("w", &[completion]).await.expect("a completion");
}

/// Rule E12: what is no traceparent is dropped, and the job is enqueued.
pub async fn a_malformed_traceparent_is_dropped(rig: SqlServerRig) {
    let mut session = rig.session().await;
    let good = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let bad = [
        good.to_uppercase(),
        format!("{good}-more"),
        format!("{} ", &good[..54]),
        good.replacen("00", "ff", 1),
        good.replace("b7ad6b7169203331", &"0".repeat(16)),
        good.replacen("0af7", "0a-7", 1),
        good.replace("b7ad6b7169203331", "b7ad6b71-9203331"),
        "é".repeat(5000),
    ];
    for text in bad.iter().map(String::as_str).chain([good]) {
        for call in [
            format!("EXEC turno.enqueue N'q', N'k', N'1', @traceparent = N'{text}'"),
            format!(
                r#"EXEC turno.enqueue_many N'[{{"queue":"q","kind":"k","payload":"1","traceparent":"{text}"}}]'"#
            ),
        ] {
            run(&mut session, &rig.sql(&call)).await.unwrap_or_else(|error| panic!("{call}: {error}"));
        }
    }
    let kept = rig.sql("SELECT COUNT(*) FROM turno.unfinished_job WHERE traceparent IS NOT NULL");
    assert_eq!(number(&mut session, &kept).await, Some(2));
}
