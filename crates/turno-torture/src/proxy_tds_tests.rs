//! The proxy and the real driver before a server that speaks TDS and knows no SQL: no SQL Server has been at hand.

use turno::sqlserver::SqlServerBackend;
use turno::{Backend, Completion, JobId, NewJob, Proof, Token};

use super::*;
use crate::fake_sqlserver::{Cell, Fake, Reply};

/// A server that has made job 7 of whatever it is asked, a proxy before it, and a backend that goes through.
async fn through() -> (Fake, Proxy, SqlServerBackend) {
    let row = |names: [&'static str; 2], id| {
        Reply::Rows(names.to_vec(), vec![vec![Cell::Number(Some(id)), Cell::Number(Some(1))]])
    };
    let fake = Fake::start(move |request| match request.contains("turno.schema_version") {
        true => row(["version", "oldest_binary"], 1),
        false => row(["id", "created"], 7),
    })
    .await;
    let proxy = Proxy::start(&fake.url(), "torture-worker-1").await.unwrap();
    let backend = SqlServerBackend::connect(&proxy.url).await.unwrap();
    (fake, proxy, backend)
}

async fn enqueue(backend: &SqlServerBackend) -> Result<JobId> {
    Ok(backend.enqueue(&[NewJob::new("mail", "welcome", "{}")]).await?[0].id)
}

async fn heard(struck: oneshot::Receiver<()>) {
    tokio::time::timeout(SILENCE, struck).await.expect("it strikes").expect("and says so");
}

#[tokio::test]
async fn what_nothing_strikes_passes_whole() {
    let (fake, _proxy, backend) = through().await;
    let long = NewJob::new("mail", "welcome", format!("\"{}\"", "x".repeat(100_000)));
    assert_eq!(backend.enqueue(&[long]).await.unwrap()[0].id, JobId(7));
    assert_eq!(fake.count(&"x".repeat(100_000)), 1);
}

#[tokio::test]
async fn an_answer_is_lost_after_the_server_gave_it() {
    let (fake, proxy, backend) = through().await;
    let struck = proxy.arm(Strike::DropReply { operation: "enqueue", silent: false });
    let error = enqueue(&backend).await.unwrap_err();
    assert!(error.outcome_is_unknown(), "{error:?}");
    heard(struck).await;
    assert_eq!(fake.count("turno.enqueue"), 1);
    assert_eq!(enqueue(&backend).await.unwrap(), JobId(7), "once only");
}

#[tokio::test]
async fn a_connection_is_cut_behind_the_request_of_one_operation() {
    let (fake, proxy, backend) = through().await;
    let struck = proxy.arm(Strike::Cut { operation: "complete", round_trip: 1 });
    assert_eq!(enqueue(&backend).await.unwrap(), JobId(7), "another operation");
    let proof = Proof { job: JobId(7), attempt: 1, token: Token::random() };
    let error = backend.complete("w", &[Completion { proof, result: None }]).await.unwrap_err();
    assert!(error.outcome_is_unknown(), "{error:?}");
    heard(struck).await;
    assert!(fake.count("turno.complete") <= 1, "the cut may overtake it");
}

#[tokio::test]
async fn a_refused_login_and_a_hole_are_outages_that_end() {
    let (_fake, proxy, backend) = through().await;
    proxy.set_weather(Weather::Refuse);
    proxy.break_connections();
    // The connection that broke is found out, or already gone.
    let mut error = enqueue(&backend).await.unwrap_err();
    if error.outcome_is_unknown() {
        error = enqueue(&backend).await.unwrap_err();
    }
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.to_string().contains("17809"), "{error}");
    proxy.set_weather(Weather::Hole);
    let mut stuck = Box::pin(enqueue(&backend));
    assert!(tokio::time::timeout(Duration::from_millis(200), &mut stuck).await.is_err());
    proxy.set_weather(Weather::Clear);
    // What had not got into the hole comes out of it.
    let after = stuck.await;
    assert!(after.is_ok() || after.is_err_and(|error| error.kind() == ErrorKind::Unavailable));
    assert_eq!(enqueue(&backend).await.unwrap(), JobId(7));
}
