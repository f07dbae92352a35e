//! Rights are EXECUTE on routines and nothing else. Each role logs in for real.

use std::time::Duration;

use turno_conformance::Rig;
use turno_contract::{Backend, ClaimRequest, ErrorKind, JobId, NewJob, Result, SettingsChange};
use turno_postgres::PostgresBackend;

use crate::rig::{PostgresRig, session};

const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

/// Makes a login that is a member of one of the roles (or of none) and answers its URL.
async fn login(rig: &PostgresRig, role: Option<&str>) -> String {
    let name = format!("turno_test_login_{}", uuid::Uuid::new_v4().simple());
    let owner = rig.owner().await;
    owner.batch_execute(&format!("CREATE ROLE {name} LOGIN PASSWORD 'x'")).await.unwrap();
    if let Some(role) = role {
        owner.batch_execute(&format!("GRANT turno_{role} TO {name}")).await.unwrap();
    }
    let url = rig.url();
    let at = url.find("://").expect("a scheme") + 3;
    let host = url[at..].find('@').map_or(at, |i| at + i + 1);
    format!("{}{name}:x@{}", &url[..at], &url[host..])
}

fn denied<T: std::fmt::Debug>(answer: Result<T>, what: &str) {
    let error = answer.expect_err(what);
    assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{what}: {error}");
}

/// Rule X2. What sql/grants.txt says is what each role may call, and it may call nothing else.
#[tokio::test]
async fn each_role_executes_its_routines_and_no_others() {
    let rig = PostgresRig::new().await;
    let grants = include_str!("../../sql/grants.txt");
    let granted = |role: &str, routine: &str| {
        grants.lines().any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some(routine) && words.any(|word| word == role)
        })
    };
    for role in ROLES {
        let client = session(&login(&rig, Some(role)).await).await;
        let sql = "SELECT p.proname::text, has_function_privilege(p.oid, 'EXECUTE') FROM pg_proc p \
                   JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'turno'";
        let routines = client.query(sql, &[]).await.unwrap();
        assert!(routines.len() > 50);
        for row in routines {
            let (routine, may) = (row.get::<_, String>(0), row.get::<_, bool>(1));
            assert_eq!(may, granted(role, &routine), "{role} and {routine}");
        }
    }
}

/// Rules X2, O6. No role reads or writes a table, a sequence, or the token of a running job.
#[tokio::test]
async fn nobody_has_rights_on_tables() {
    let rig = PostgresRig::new().await;
    for role in ROLES.map(Some).into_iter().chain([None]) {
        let client = session(&login(&rig, role).await).await;
        for table in
            ["job", "finished_job", "attempt", "enqueue_key", "refused", "queue", "waiting", "reaper", "meta"]
        {
            for sql in [format!("SELECT * FROM turno.{table}"), format!("DELETE FROM turno.{table}")] {
                let error = client.batch_execute(&sql).await.expect_err(&sql);
                assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{role:?}: {sql}");
            }
        }
        let error = client.batch_execute("SELECT nextval('turno.job_id')").await.expect_err("a sequence");
        assert_eq!(error.code().map(|code| code.code()), Some("42501"), "{role:?}");
    }
    // A view or routine that tells tokens would name the column.
    let sql = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'turno' \
               AND 'token' = ANY (p.proargnames) AND has_function_privilege('turno_viewer', p.oid, 'EXECUTE')";
    assert_eq!(rig.scalar(sql).await, Some(0));
}

/// Rule E2. Only the scheduler sets and changes priorities.
#[tokio::test]
async fn only_the_scheduler_sets_priorities() {
    let rig = PostgresRig::new().await;
    let plain = NewJob::new("q", "k", "1");
    let urgent = plain.clone().priority(-5);
    let producer = PostgresBackend::connect(&login(&rig, Some("producer")).await).await.unwrap();
    let id = producer.enqueue(std::slice::from_ref(&plain)).await.unwrap()[0].id;
    denied(producer.enqueue(std::slice::from_ref(&urgent)).await, "a producer's priority");
    denied(producer.reprioritize(id, -5).await, "a producer's change of priority");
    let operator = PostgresBackend::connect(&login(&rig, Some("operator")).await).await.unwrap();
    denied(operator.reprioritize(id, -5).await, "an operator's change of priority");
    let scheduler = PostgresBackend::connect(&login(&rig, Some("scheduler")).await).await.unwrap();
    scheduler.enqueue(std::slice::from_ref(&urgent)).await.unwrap();
    scheduler.reprioritize(id, -5).await.unwrap();
}

/// Rule X2. A worker works, and neither produces nor operates; a viewer looks.
#[tokio::test]
async fn a_worker_works_and_a_viewer_looks() {
    let rig = PostgresRig::new().await;
    rig.backend().enqueue(&vec![NewJob::new("q", "k", "1"); 3]).await.unwrap();
    let worker = PostgresBackend::connect(&login(&rig, Some("worker")).await).await.unwrap();
    let jobs = worker.claim(&ClaimRequest::one("q", "w").limit(2)).await.unwrap().jobs;
    let completion = turno_contract::Completion { proof: jobs[0].proof, result: None };
    worker.complete("w", &[completion]).await.unwrap();
    denied(worker.enqueue(&[NewJob::new("q", "k", "1")]).await, "a worker's enqueue");
    denied(worker.cancel(jobs[1].proof.job, true).await, "a worker's cancel");
    denied(worker.pause("q").await, "a worker's pause");
    let viewer = PostgresBackend::connect(&login(&rig, Some("viewer")).await).await.unwrap();
    assert_eq!(viewer.stats(Duration::from_secs(60)).await.unwrap()[0].running.n, 1);
    assert_eq!(viewer.job(jobs[0].proof.job).await.unwrap().unwrap().id, jobs[0].proof.job);
    denied(viewer.held(jobs[0].proof.token).await, "a viewer's look at a token");
    denied(viewer.claim(&ClaimRequest::one("q", "w")).await, "a viewer's claim");
    denied(viewer.retry(JobId(1)).await, "a viewer's retry");
    denied(viewer.queue_set(None, &SettingsChange::default()).await, "a viewer's settings");
    denied(viewer.migrate(false).await, "a viewer's migration");
}

/// Rule X2. PUBLIC has nothing, not even the schema.
#[tokio::test]
async fn a_login_without_a_role_gets_nothing() {
    let rig = PostgresRig::new().await;
    let nobody = PostgresBackend::connect(&login(&rig, None).await).await.unwrap();
    denied(nobody.enqueue(&[NewJob::new("q", "k", "1")]).await, "nobody's enqueue");
    denied(nobody.stats(Duration::from_secs(60)).await, "nobody's stats");
}

/// A definer's routine must not run what a caller put into another schema under a familiar name.
#[tokio::test]
async fn every_definer_routine_fixes_its_search_path() {
    let rig = PostgresRig::new().await;
    let sql = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'turno' \
               AND p.prosecdef AND NOT 'search_path=pg_catalog, pg_temp' = ANY (coalesce(p.proconfig, '{}'))";
    assert_eq!(rig.scalar(sql).await, Some(0));
    // No routine of an operation runs with its caller's rights.
    let sql = "SELECT count(*) FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'turno' \
               AND NOT p.prosecdef AND has_function_privilege('turno_operator', p.oid, 'EXECUTE')";
    assert_eq!(rig.scalar(sql).await, Some(0));
}
