//! A worker: typed handlers, shared state, a deadline, cancellation, and a graceful end on SIGTERM or Ctrl-C.
//!
//! `cargo run -p turno --example worker [URL]`. Without a URL it works off a few jobs of its own and ends.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use turno::{Context, JobError, Queue, RetryPolicy, Worker, signals};

#[derive(Serialize, Deserialize)]
struct Mail {
    to: String,
}

/// What all handlers share.
#[derive(Default)]
struct App {
    sent: AtomicUsize,
}

async fn welcome(context: Context<App>, mail: Mail) -> Result<String, JobError> {
    if !mail.to.contains('@') {
        // Trying again will not help: the job is dead, with this as its reason.
        return Err(JobError::new(format!("{:?} is no address", mail.to)).never());
    }
    tokio::select! {
        () = deliver(&mail) => {}
        // The lease was lost, somebody cancelled the job, its time is over, or the worker shuts down.
        () = context.cancelled() => return Err(JobError::new("interrupted")),
    }
    context.state().sent.fetch_add(1, Ordering::SeqCst);
    Ok(format!("delivered in attempt {}", context.attempt()))
}

/// Stands for a mail server.
async fn deliver(_: &Mail) {
    tokio::task::yield_now().await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let url = std::env::args().nth(1);
    let demonstration = url.is_none();
    let default = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let backend = turno::connect(&url.unwrap_or(default)).await?;
    backend.migrate(false).await?;

    let worker = Worker::builder(backend.clone())
        .state(App::default())
        .queue("mail")
        .concurrency(20)
        .kind_concurrency("report", 2)
        .kind_retry("welcome", RetryPolicy::exponential(Duration::from_secs(1), Duration::from_secs(600)))
        .handler("welcome", welcome)
        .handler(
            "report",
            |_: Context<App>, (from, to): (u32, u32)| async move { Ok((from..to).sum::<u32>()) },
        )
        .build()?;
    let handle = worker.handle();
    signals::shutdown_on_signals(handle.clone())?;

    if demonstration {
        let queue = Queue::new(backend, "mail");
        for to in ["ada@example.org", "grace@example.org", "nobody"] {
            queue.enqueue("welcome", &Mail { to: to.into() }).await?;
        }
        queue.enqueue("report", &(1, 11)).await?;
        tokio::spawn(async move {
            while handle.metrics().succeeded + handle.metrics().dead < 4 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            handle.shutdown();
        });
    }
    let report = worker.run().await?;
    println!("{} succeeded, {} dead", report.metrics.succeeded, report.metrics.dead);
    Ok(())
}
