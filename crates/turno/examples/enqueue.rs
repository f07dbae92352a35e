//! Producers: one job, a delayed one, one that may be repeated, and many at once.
//!
//! `cargo run -p turno --example enqueue [URL]`, by default on a SQLite file in a temporary folder.

use std::time::Duration;

use serde::Serialize;
use turno::Queue;

#[derive(Serialize)]
struct Mail<'a> {
    to: &'a str,
    subject: &'a str,
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let default = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let backend = turno::connect(&std::env::args().nth(1).unwrap_or(default)).await?;
    // In production a deployment step runs `turno migrate`; enqueueing never changes the schema.
    backend.migrate(false).await?;

    let mails = Queue::new(backend, "mail");
    let job = mails.enqueue("welcome", &Mail { to: "ada@example.org", subject: "Hello" }).await?;
    println!("job {} is due now", job.id);

    let tomorrow = time::OffsetDateTime::now_utc() + Duration::from_secs(24 * 3600);
    let reminder = mails
        .job("reminder", &Mail { to: "ada@example.org", subject: "Tomorrow" })?
        .run_at(tomorrow)
        .max_attempts(5)
        .unique_key("reminder ada");
    let job = mails.enqueue_job(reminder.clone()).await?;
    let same = mails.enqueue_job(reminder).await?;
    println!("job {} is due tomorrow; asking again found it: {}", job.id, !same.created);

    // With an idempotency key a lost answer is no problem: the call may simply be made again.
    let receipt = mails
        .job("receipt", &Mail { to: "ada@example.org", subject: "Order 17" })?
        .idempotency_key("receipt for order 17");
    println!("job {} exists once, however often this runs", mails.enqueue_job(receipt).await?.id);

    let many = (0..1000)
        .map(|n| mails.job("news", &Mail { to: &format!("reader{n}@example.org"), subject: "News" }))
        .collect::<turno::Result<Vec<_>>>()?;
    println!("{} more in one transaction", mails.enqueue_many(&many).await?.len());
    Ok(())
}
