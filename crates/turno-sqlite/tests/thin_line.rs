//! The life of one job from migrate to reap, on a file.

use std::time::{Duration, Instant};

use turno_contract::{
    Backend, Beat, ClaimRequest, Completion, ErrorKind, Failure, HeartbeatAnswer, NewJob, Release, Retry,
    SettledStatus, State,
};
use turno_sqlite::{SqliteBackend, SqliteOptions};

async fn backend(folder: &tempfile::TempDir) -> SqliteBackend {
    let path = folder.path().join("queue.db");
    SqliteBackend::connect(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap()
}

#[tokio::test]
async fn a_job_goes_the_whole_way() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    let error = backend.stats(Duration::from_secs(60)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
    assert_eq!(backend.migrate(true).await.unwrap().version_before, None);
    let error = backend.enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch, "{error}");
    assert_eq!(backend.migrate(false).await.unwrap().applied, ["0001_initial.sql"]);
    assert_eq!(backend.migrate(false).await.unwrap().version_before, Some(1));

    let jobs: Vec<NewJob> = (0..4).map(|n| NewJob::new("q", "k", format!("{n}"))).collect();
    let ids: Vec<_> = backend.enqueue(&jobs).await.unwrap().iter().map(|answer| answer.id).collect();
    let claimed = backend.claim(&ClaimRequest::one("q", "w").limit(3)).await.unwrap();
    assert_eq!(claimed.jobs.iter().map(|job| job.proof.job).collect::<Vec<_>>(), ids[..3]);
    let beats: Vec<Beat> = claimed.jobs.iter().map(|job| Beat { proof: job.proof, started: true }).collect();
    let answers = backend.heartbeat(&beats, Duration::from_secs(30)).await.unwrap();
    assert!(answers.iter().all(|answer| matches!(answer, HeartbeatAnswer::Held { .. })), "{answers:?}");

    let completion = Completion { proof: claimed.jobs[0].proof, result: Some("42".to_owned()) };
    for status in [SettledStatus::Done, SettledStatus::Already] {
        let settled = backend.complete("w", std::slice::from_ref(&completion)).await.unwrap();
        assert_eq!((settled[0].status, settled[0].state), (status, Some(State::Succeeded)));
    }
    let failure = Failure { proof: claimed.jobs[1].proof, error: "no".to_owned(), retry: Retry::Policy };
    let settled = backend.fail("w", &[failure]).await.unwrap();
    assert_eq!(settled[0].state, Some(State::Scheduled));
    let release = Release { proof: claimed.jobs[2].proof, delay: None };
    let settled = backend.release("w", &[release]).await.unwrap();
    assert_eq!(settled[0].state, Some(State::Ready));

    let request = ClaimRequest::one("q", "w").limit(9).lease(Duration::from_millis(1));
    let claimed = backend.claim(&request).await.unwrap();
    assert_eq!(claimed.jobs.len(), 2);
    assert!(claimed.next_due_in.is_some());
    let (mut reaped, begun) = (0, Instant::now());
    while reaped < 2 {
        reaped += backend.reap(10, Duration::ZERO).await.unwrap().jobs.len();
        assert!(begun.elapsed() < Duration::from_secs(20), "leases of 1 ms have not ended");
    }
    let late = Completion { proof: claimed.jobs[0].proof, result: None };
    let settled = backend.complete("w", &[late]).await.unwrap();
    assert_eq!(settled[0].status, SettledStatus::Refused, "{settled:?}");

    let stats = &backend.stats(Duration::from_secs(60)).await.unwrap()[0];
    assert_eq!((stats.scheduled.n, stats.succeeded.n, stats.retries.n, stats.refused.n), (3, 1, 3, 1));
    assert_eq!(backend.audit().await.unwrap(), []);
    assert_eq!(backend.attempts(ids[2]).await.unwrap().len(), 2);
}
