//! An effect outside of the database: the handler may run more than once (at-least-once), but the payment happens once,
//! because every attempt of a job shows the same operation id.
//!
//! `cargo run -p turno --example idempotent_effect [URL]`, by default on a SQLite file in a temporary folder.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use turno::{Context, JobError, Queue, Worker};

/// Stands for a payment service that remembers idempotency keys, as they do.
#[derive(Default)]
struct Bank {
    payments: Mutex<HashMap<String, u32>>,
}

impl Bank {
    fn pay(&self, idempotency_key: &str, cents: u32) -> Result<(), JobError> {
        let mut payments = self.payments.lock().map_err(|_| JobError::new("the bank is closed"))?;
        payments.entry(idempotency_key.to_owned()).or_insert(cents);
        Ok(())
    }
}

async fn pay(context: Context<Arc<Bank>>, cents: u32) -> Result<(), JobError> {
    context.state().pay(&context.operation_id().to_string(), cents)?;
    if context.attempt() == 1 {
        // The payment has happened, but its confirmation is lost: the worst moment to fail.
        return Err(JobError::new("the line was cut").retry_in(Duration::ZERO));
    }
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let default = format!("sqlite:{}", folder.path().join("jobs.db").display());
    let backend = turno::connect(&std::env::args().nth(1).unwrap_or(default)).await?;
    backend.migrate(false).await?;

    let job = Queue::new(backend.clone(), "payments").enqueue("pay", &1999).await?;
    let bank = Arc::new(Bank::default());
    let worker = Worker::builder(backend.clone())
        .state(Arc::clone(&bank))
        .queue("payments")
        .handler("pay", pay)
        .build()?;
    let handle = worker.handle();
    tokio::spawn(async move {
        while handle.metrics().succeeded < 1 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        handle.shutdown();
    });
    worker.run().await?;
    let attempts = backend.attempts(job.id).await?.len();
    let payments = bank.payments.lock().map_err(|_| "the bank is closed")?.len();
    println!("{attempts} attempts, {payments} payment");
    Ok(())
}
