//! The doorbell rings only for sleepers, and comes back when its session is ended (known faults B24, B53).

use std::time::Duration;

use turno_conformance::Rig;
use turno_contract::NewJob;

use crate::rig::{PostgresRig, session};

const PATIENCE: Duration = Duration::from_secs(30);

/// Enqueues until the bell rings: a ring may be lost while the listener is away, and only then.
async fn ring_comes(rig: &PostgresRig, bell: &mut tokio::sync::watch::Receiver<u64>) {
    let rung = async {
        loop {
            bell.borrow_and_update();
            rig.backend().wait(&["q".to_owned()], Duration::from_secs(60)).await.unwrap();
            rig.backend().enqueue(&[NewJob::new("q", "k", "1")]).await.unwrap();
            if tokio::time::timeout(Duration::from_millis(500), bell.changed()).await.is_ok() {
                return;
            }
        }
    };
    tokio::time::timeout(PATIENCE, rung).await.expect("the bell rings in time");
}

/// Rules W1, W2. B53.
#[tokio::test]
async fn the_listener_comes_back_after_its_session_was_ended() {
    let rig = PostgresRig::new().await;
    let mut bell = rig.backend().doorbell();
    ring_comes(&rig, &mut bell).await;
    let sql = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
               AND query ILIKE 'LISTEN%' OR query ILIKE 'NOTIFY%' AND datname = current_database()";
    assert!(rig.scalar(sql).await >= Some(1), "a session listens");
    ring_comes(&rig, &mut bell).await;
}

/// Rule W2. B24: the payload is empty whatever was enqueued, and nobody rings for the deaf.
#[tokio::test]
async fn it_rings_once_a_transaction_and_only_for_sleepers() {
    let rig = PostgresRig::new().await;
    let (client, mut connection) =
        tokio_postgres::connect(&rig.url(), tokio_postgres::NoTls).await.expect("a connection");
    let (sender, mut notifications) = tokio::sync::mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = std::future::poll_fn(|context| connection.poll_message(context)).await {
            if let tokio_postgres::AsyncMessage::Notification(notification) = message {
                let _ = sender.send(notification.payload().to_owned());
            }
        }
    });
    client.batch_execute("LISTEN turno").await.unwrap();
    let big = NewJob::new("q".repeat(200), "k", format!("\"{}\"", "x".repeat(900_000)));
    rig.backend().enqueue(&vec![big.clone(); 20]).await.unwrap();
    // The routine itself, since a backend without a listener of its own does not mark.
    let waiter = session(&rig.url()).await;
    waiter.query("SELECT turno.wait(ARRAY[repeat('q', 200)], 60000)", &[]).await.unwrap();
    rig.backend().enqueue(&vec![big; 20]).await.unwrap();
    client.batch_execute("NOTIFY turno, 'end'").await.unwrap();
    let mut heard = Vec::new();
    while heard.last().map(String::as_str) != Some("end") {
        let next =
            tokio::time::timeout(PATIENCE, notifications.recv()).await.expect("a notification in time");
        heard.push(next.expect("the connection lives"));
    }
    assert_eq!(heard, ["", "end"]);
}
