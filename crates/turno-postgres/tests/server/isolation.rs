//! Databases and roles may have another default isolation than READ COMMITTED (known fault B28).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use turno_conformance::Rig;
use turno_contract::{Backend, Beat, CancelAnswer, ClaimRequest, Completion, NewJob, SettledStatus};
use turno_postgres::PostgresBackend;

use crate::rig::{PostgresRig, session};

/// A backend on a database whose default isolation is this.
async fn backend_at(isolation: &str) -> (PostgresRig, Arc<PostgresBackend>) {
    let rig = PostgresRig::new().await;
    let row = rig.owner().await.query_one("SELECT current_database()::text", &[]).await.unwrap();
    let sql = format!(
        "ALTER DATABASE {} SET default_transaction_isolation = '{isolation}'",
        row.get::<_, String>(0)
    );
    rig.owner().await.batch_execute(&sql).await.unwrap();
    let backend = PostgresBackend::connect(&rig.url()).await.unwrap();
    (rig, Arc::new(backend))
}

/// Rules C1, X3. Every claimer gets its jobs at the first call: no error, and nothing "empty" while jobs are free.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn claims_and_settles_work_at_any_default_isolation() {
    for isolation in ["repeatable read", "serializable"] {
        let (_rig, backend) = backend_at(isolation).await;
        backend.enqueue(&vec![NewJob::new("q", "k", "1"); 400]).await.unwrap();
        let workers: Vec<_> = (0..8)
            .map(|i| {
                let backend = backend.clone();
                tokio::spawn(async move {
                    let mut seen = Vec::new();
                    for _ in 0..10 {
                        let request = ClaimRequest::one("q", format!("w{i}")).limit(5);
                        let jobs = backend.claim(&request).await.unwrap().jobs;
                        assert_eq!(jobs.len(), 5, "jobs are free");
                        let beats: Vec<Beat> =
                            jobs.iter().map(|job| Beat { proof: job.proof, started: true }).collect();
                        let completions: Vec<Completion> =
                            jobs.iter().map(|job| Completion { proof: job.proof, result: None }).collect();
                        let (beaten, settled) = tokio::join!(
                            backend.heartbeat(&beats, Duration::from_secs(30)),
                            backend.complete("w", &completions),
                        );
                        beaten.unwrap();
                        assert!(settled.unwrap().iter().all(|answer| answer.status == SettledStatus::Done));
                        seen.extend(jobs.iter().map(|job| job.proof.job));
                    }
                    seen
                })
            })
            .collect();
        let mut all = HashSet::new();
        for worker in workers {
            for job in worker.await.unwrap() {
                assert!(all.insert(job), "{isolation}: job {job} was claimed twice");
            }
        }
        assert_eq!(all.len(), 400, "{isolation}");
    }
}

/// Rule E5. B46: at REPEATABLE READ too, a second caller gets an id or an error, never "exists" with nothing there.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn twenty_enqueues_of_one_key_give_one_job_at_any_isolation() {
    for isolation in ["read committed", "repeatable read", "serializable"] {
        let (rig, backend) = backend_at(isolation).await;
        let job = NewJob::new("q", "k", "1").unique_key("u");
        let keyed = NewJob::new("q", "k", "1").idempotency_key("i");
        let callers: Vec<_> = (0..20)
            .map(|_| {
                let (backend, jobs) = (backend.clone(), [job.clone(), keyed.clone()]);
                tokio::spawn(async move { backend.enqueue(&jobs).await.unwrap() })
            })
            .collect();
        let mut created = 0;
        let mut ids = HashSet::new();
        for caller in callers {
            for answer in caller.await.unwrap() {
                created += usize::from(answer.created);
                ids.insert(answer.id);
            }
        }
        assert_eq!((created, ids.len()), (2, 2), "{isolation}");
        assert_eq!(rig.scalar("SELECT count(*) FROM turno.job").await, Some(2), "{isolation}");
    }
}

/// Rules P2, F7. A forced cancel that had to wait for a claim ends the attempt after the claim, not before it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoke_that_waited_for_a_claim_ends_after_it() {
    let rig = PostgresRig::new().await;
    let backend = rig.backend();
    let job = backend.enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap()[0].id;
    // A claim in slow motion: it holds the row, and takes its time once the cancel waits for it.
    let claim = session(&rig.url()).await;
    claim.batch_execute("BEGIN; SELECT id FROM turno.job FOR UPDATE").await.unwrap();
    let cancel =
        tokio::spawn(async move { rig.backend().cancel(job, true).await.map(|answer| (answer, rig)) });
    let waiting = "SELECT count(*) FROM pg_stat_activity
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let give_up_at = Instant::now() + Duration::from_secs(60);
    while claim.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0) == 0 {
        assert!(Instant::now() < give_up_at, "the cancel waits for the row");
    }
    let running =
        "UPDATE turno.job SET state = 'running', attempt = 1, token = gen_random_uuid(), worker = 'w',
                       claimed_at = clock_timestamp(), lease_until = clock_timestamp() + interval '1 minute',
                       run_until = clock_timestamp() + interval '1 hour'";
    claim.batch_execute(&format!("{running}; COMMIT")).await.unwrap();
    let (answer, _rig) = cancel.await.unwrap().unwrap();
    assert_eq!(answer, CancelAnswer::Cancelled);
    let attempts = backend.attempts(job).await.unwrap();
    assert_eq!(attempts.len(), 1);
    assert!(attempts[0].ended_at >= attempts[0].claimed_at, "{:?}", attempts[0]);
}
