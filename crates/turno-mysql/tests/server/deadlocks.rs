//! Many at once on a nearly empty table: deadlocks happen, and no caller sees one (rule X3).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use turno_conformance::Rig;
use turno_contract::{
    Backend, ClaimRequest, Completion, Failure, Keep, NewJob, Release, Retry, SettingsChange,
};
use turno_mysql::MysqlBackend;

use crate::rig::{MysqlRig, servers};

/// How long it goes on; `TURNO_TEST_DEADLOCK_SECONDS` may say otherwise.
fn duration() -> Duration {
    let seconds = std::env::var("TURNO_TEST_DEADLOCK_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(5))
}

struct Crowd {
    url: String,
    stop: AtomicBool,
    /// A claim found nothing: all producers come at once. So the table stays nearly empty, and everybody meets at the same
    /// few records.
    hungry: Notify,
    enqueued: AtomicU64,
    settled: AtomicU64,
    /// Calls that were made again.
    repeated: AtomicU64,
}

impl Crowd {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    async fn backend(&self) -> MysqlBackend {
        MysqlBackend::connect(&self.url).await.expect("a backend")
    }

    async fn produce(&self, who: usize) {
        let backend = self.backend().await;
        for n in 0.. {
            if !self.goes_on() {
                break;
            }
            let _ = tokio::time::timeout(Duration::from_millis(100), self.hungry.notified()).await;
            let plain = NewJob::new("q", "k", "1");
            let keyed = plain.clone().unique_key(format!("u{}", n % 5)).idempotency_key(format!("{who}-{n}"));
            backend.enqueue(&[plain.clone(), keyed, plain]).await.expect("no producer sees a deadlock");
            self.enqueued.fetch_add(3, Ordering::Relaxed);
        }
        self.repeated.fetch_add(backend.calls_repeated(), Ordering::Relaxed);
    }

    async fn work(&self) {
        let backend = self.backend().await;
        while self.goes_on() {
            // A lease that ends at once brings the reaper to the same rows.
            let request = ClaimRequest::one("q", "w").limit(4).lease(Duration::from_millis(20));
            let jobs = backend.claim(&request).await.expect("no claimer sees a deadlock").jobs;
            if jobs.is_empty() {
                self.hungry.notify_waiters();
            }
            for (n, job) in jobs.iter().enumerate() {
                let proof = job.proof;
                let settled = match n % 4 {
                    0 => {
                        backend
                            .fail(
                                "w",
                                &[Failure { proof, error: "no".into(), retry: Retry::In(Duration::ZERO) }],
                            )
                            .await
                    }
                    1 => backend.release("w", &[Release { proof, delay: None }]).await,
                    _ => backend.complete("w", &[Completion { proof, result: None }]).await,
                };
                settled.expect("no worker sees a deadlock");
                self.settled.fetch_add(1, Ordering::Relaxed);
            }
        }
        self.repeated.fetch_add(backend.calls_repeated(), Ordering::Relaxed);
    }

    async fn maintain(&self) {
        let backend = self.backend().await;
        while self.goes_on() {
            backend.reap(100, Duration::ZERO).await.expect("no reaper sees a deadlock");
            backend.prune(100).await.expect("no pruner sees a deadlock");
            backend.promote(&[], 100).await.expect("no promoter sees a deadlock");
        }
        self.repeated.fetch_add(backend.calls_repeated(), Ordering::Relaxed);
    }
}

/// Rule X3.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn producers_claimers_a_reaper_and_a_pruner_see_no_deadlock() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let short = SettingsChange {
            keep_succeeded: Some(Keep::For(Duration::from_millis(1))),
            ..Default::default()
        };
        rig.mysql().queue_set(Some("q"), &short).await.expect("a short retention");
        let crowd = Arc::new(Crowd {
            url: rig.url(),
            stop: AtomicBool::new(false),
            hungry: Notify::new(),
            enqueued: AtomicU64::new(0),
            settled: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
        });
        let mut tasks = tokio::task::JoinSet::new();
        for who in 0..4 {
            let crowd = crowd.clone();
            tasks.spawn(async move { crowd.produce(who).await });
        }
        for _ in 0..8 {
            let crowd = crowd.clone();
            tasks.spawn(async move { crowd.work().await });
        }
        for _ in 0..2 {
            let crowd = crowd.clone();
            tasks.spawn(async move { crowd.maintain().await });
        }
        let end = Instant::now() + duration();
        // A task that ends early has failed, and says why.
        while let Ok(Some(ended)) =
            tokio::time::timeout(end.saturating_duration_since(Instant::now()), tasks.join_next()).await
        {
            ended.expect("nobody sees a deadlock");
        }
        crowd.stop.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.expect("nobody sees a deadlock");
        }
        let [enqueued, settled, repeated] =
            [&crowd.enqueued, &crowd.settled, &crowd.repeated].map(|n| n.load(Ordering::Relaxed));
        println!("{server}: {enqueued} enqueued, {settled} settled, {repeated} calls made again");
        assert!(settled > 0, "{server}: nothing was settled");
        assert_eq!(rig.mysql().audit().await.expect("audit"), vec![], "{server}");
    }
}
