//! One transaction for your rows and the job: an order and its mail are enqueued together, and the mail's own row and
//! the job's completion are committed together. No outbox table, no relay, nothing to reconcile.
//!
//! `cargo run -p turno --example outbox [sqlite:FILE]`. On PostgreSQL the same is `enqueue_in` and `complete_in` of
//! `turno::postgres::PostgresBackend`, on a transaction of tokio-postgres or, with the feature `sqlx`, of sqlx.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Connection, TransactionBehavior};
use turno::sqlite::{SettlingTransaction, complete_in, enqueue_in};
use turno::{Completion, Context, JobError, NewJob, Worker};

fn open(path: &str) -> rusqlite::Result<Connection> {
    let connection = Connection::open(path)?;
    connection.busy_timeout(Duration::from_secs(5))?;
    Ok(connection)
}

/// Writes an order and enqueues its mail: both exist, or neither does.
fn order(connection: &mut Connection, item: &str) -> Result<(), Box<dyn std::error::Error>> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    transaction.execute("INSERT INTO orders (item) VALUES (?1)", [item])?;
    let number = transaction.last_insert_rowid();
    enqueue_in(&transaction, &NewJob::new("mail", "confirm", number.to_string()))?;
    if item.is_empty() {
        // Nothing of the above has happened.
        return Ok(transaction.rollback()?);
    }
    Ok(transaction.commit()?)
}

/// Notes that the mail went out, and completes the job, in one transaction. If the lease was lost meanwhile, the
/// completion is refused and the note is not written either.
async fn confirm(context: Context<Arc<str>>, order: i64) -> Result<(), JobError> {
    let mut connection = open(context.state())?;
    let mut transaction = SettlingTransaction::begin(&mut connection)?;
    transaction.execute("INSERT INTO confirmed (order_number) VALUES (?1)", [order])?;
    let completion = Completion { proof: context.proof(), result: None };
    complete_in(&mut transaction, context.worker(), &completion)?;
    Ok(transaction.commit()?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let default = format!("sqlite:{}", folder.path().join("shop.db").display());
    let url = std::env::args().nth(1).unwrap_or(default);
    let path = url.strip_prefix("sqlite:").ok_or("this example speaks SQLite: sqlite:FILE")?;
    let backend = turno::connect(&url).await?;
    backend.migrate(false).await?;

    let mut connection = open(path)?;
    connection.execute_batch(
        "CREATE TABLE IF NOT EXISTS orders (number INTEGER PRIMARY KEY, item TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS confirmed (order_number INTEGER PRIMARY KEY);",
    )?;
    for item in ["bread", "", "salt"] {
        order(&mut connection, item)?;
    }

    let worker = Worker::builder(backend)
        .state(Arc::<str>::from(path))
        .queue("mail")
        .handler("confirm", confirm)
        .build()?;
    let handle = worker.handle();
    tokio::spawn(async move {
        while handle.metrics().succeeded < 2 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        handle.shutdown();
    });
    worker.run().await?;
    let count = |table: &str| -> rusqlite::Result<i64> {
        connection.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0))
    };
    println!("{} orders, {} confirmed", count("orders")?, count("confirmed")?);
    Ok(())
}
