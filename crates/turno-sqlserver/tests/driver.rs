//! The driver's side of a connection, against a server that answers what a test says: errors and their repeats, cut
//! connections, late answers. What a real server does is for the conformance suite.

mod fake;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use fake::{Cell, Fake, Reply};
use tokio::sync::Semaphore;
use turno_contract::{Backend, CancelAnswer, Completion, ErrorKind, JobId, NewJob, Proof, State, Token};
use turno_sqlserver::{SettlingTransaction, SqlServerBackend, SqlServerOptions};

/// Longer than any of these tests takes on a busy machine.
const LIMIT: Duration = Duration::from_secs(30);

fn version() -> Reply {
    Reply::Rows(vec!["version", "oldest_binary"], vec![vec![Cell::Number(Some(1)), Cell::Number(Some(1))]])
}

fn enqueued(id: i64) -> Reply {
    Reply::Rows(vec!["id", "created"], vec![vec![Cell::Number(Some(id)), Cell::Number(Some(1))]])
}

/// Answers the questions of every backend and leaves the rest to the test.
fn knowing(mut rest: impl FnMut(&str) -> Reply + Send) -> impl FnMut(&str) -> Reply + Send {
    move |request| match request {
        _ if request.contains("turno.schema_version") => version(),
        _ if request.contains("SELECT 1 AS one") => {
            Reply::Rows(vec!["one"], vec![vec![Cell::Number(Some(1))]])
        }
        _ => rest(request),
    }
}

async fn backend(fake: &Fake) -> SqlServerBackend {
    SqlServerBackend::connect(&fake.url()).await.expect("the backend connects")
}

fn job() -> NewJob {
    NewJob::new("q", "k", "1")
}

#[tokio::test]
async fn an_enqueue_sends_its_arguments_and_reads_its_answer() {
    let fake = Fake::start(knowing(|_| enqueued(9_007_199_254_740_993))).await;
    let backend = backend(&fake).await;
    let answers = backend.enqueue(&[NewJob::new("queue 👩‍👩‍👧", "kind", r#"{"a":"\u0000"}"#)]).await.unwrap();
    assert_eq!((answers[0].id, answers[0].created), (JobId(9_007_199_254_740_993), true));
    for text in ["EXEC turno.enqueue @P1", "queue 👩‍👩‍👧", r#"{"a":"\u0000"}"#] {
        assert_eq!(fake.count(text), 1, "{text}");
    }
}

#[tokio::test]
async fn words_of_an_answer_are_read_and_an_unknown_one_is_an_error() {
    for (word, state) in [("too_late", "dead"), ("too_late", "asleep")] {
        let cells = vec![vec![Cell::Text(Some(word)), Cell::Text(Some(state))]];
        let fake = Fake::start(knowing(move |_| Reply::Rows(vec!["answer", "state"], cells.clone()))).await;
        let answer = backend(&fake).await.cancel(JobId(1), false).await.map_err(|error| error.kind());
        let expected =
            if state == "dead" { Ok(CancelAnswer::TooLate(State::Dead)) } else { Err(ErrorKind::Internal) };
        assert_eq!(answer, expected);
    }
}

/// Rule X3.
#[tokio::test]
async fn what_the_server_rolled_back_is_called_again_on_another_connection_and_counted() {
    for code in [1205, 1222, 3960, 53107, 40501] {
        let calls = AtomicU32::new(0);
        let fake = Fake::start(knowing(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Reply::Error(code, "rolled back"),
            _ => enqueued(7),
        }))
        .await;
        let backend = backend(&fake).await;
        assert_eq!(backend.enqueue(&[job()]).await.unwrap()[0].id, JobId(7), "{code}");
        assert_eq!((backend.calls_repeated(), fake.count("turno.enqueue")), (2, 3), "{code}");
    }
}

/// Rule X3: bounded.
#[tokio::test]
async fn a_call_that_is_always_rolled_back_ends_as_busy() {
    let fake = Fake::start(knowing(|_| Reply::Error(1205, "again"))).await;
    let backend = backend(&fake).await;
    let error = tokio::time::timeout(LIMIT, backend.enqueue(&[job()])).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy);
    assert!(error.is_transient());
    assert_eq!(fake.count("turno.enqueue"), 9);
}

/// Rule E6: an enqueue whose answer was lost says so, and is not made again by itself.
#[tokio::test]
async fn a_connection_that_breaks_leaves_the_outcome_unknown_and_is_not_used_again() {
    for cut in [Reply::Cut, Reply::CutHalfWay, Reply::Error(40197, "moved"), Reply::Error(596, "killed")] {
        let (calls, reply) = (AtomicU32::new(0), cut.clone());
        let fake = Fake::start(knowing(move |_| match calls.fetch_add(1, Ordering::SeqCst) {
            0 => reply.clone(),
            _ => enqueued(8),
        }))
        .await;
        let backend = backend(&fake).await;
        let error = tokio::time::timeout(LIMIT, backend.enqueue(&[job()])).await.unwrap().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
        assert!(error.outcome_is_unknown(), "{error:?}");
        assert_eq!(fake.count("turno.enqueue"), 1, "it was made again");
        assert_eq!(backend.enqueue(&[job()]).await.unwrap()[0].id, JobId(8));
        assert_eq!(backend.calls_repeated(), 0);
    }
}

#[tokio::test]
async fn an_error_after_the_rows_is_an_error() {
    let fake = Fake::start(knowing(|_| {
        Reply::RowsThenError(
            vec!["id", "created"],
            vec![vec![Cell::Number(Some(1)), Cell::Number(Some(1))]],
            9002,
        )
    }))
    .await;
    let error = backend(&fake).await.enqueue(&[job()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Busy, "the log was full when it was to commit: {error:?}");
}

#[tokio::test]
async fn numbers_of_the_contract_have_their_kinds() {
    let table = [
        (53101, ErrorKind::InvalidArgument),
        (53105, ErrorKind::NotFound),
        (53106, ErrorKind::Conflict),
        (547, ErrorKind::InvalidArgument),
        (229, ErrorKind::PermissionDenied),
        (2812, ErrorKind::VersionMismatch),
        (8134, ErrorKind::Internal),
    ];
    for (code, kind) in table {
        let fake = Fake::start(knowing(move |_| Reply::Error(code, "as told"))).await;
        let error = backend(&fake).await.retry(JobId(1)).await.unwrap_err();
        assert_eq!(error.kind(), kind, "{code}: {error:?}");
        assert!(error.message().contains("as told"), "{error}");
    }
}

#[tokio::test]
async fn a_schema_that_does_not_fit_is_told_before_anything_is_done() {
    let fake = Fake::start(|_| {
        Reply::Rows(
            vec!["version", "oldest_binary"],
            vec![vec![Cell::Number(Some(9)), Cell::Number(Some(9))]],
        )
    })
    .await;
    let error = backend(&fake).await.enqueue(&[job()]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::VersionMismatch);
    assert_eq!(fake.count("turno.enqueue"), 0);
}

#[tokio::test]
async fn nobody_listening_is_unavailable_and_nothing_was_sent() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("sqlserver://a:b@{}/d?encrypt=false", listener.local_addr().unwrap());
    drop(listener);
    let error = SqlServerBackend::connect(&url).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(!error.outcome_is_unknown());
}

#[tokio::test]
async fn many_calls_at_once_share_two_connections() {
    let gate = Arc::new(Semaphore::new(0));
    let closed = gate.clone();
    let fake = Fake::start(knowing(move |_| Reply::After(closed.clone(), Box::new(enqueued(1))))).await;
    let backend = Arc::new(backend(&fake).await);
    let calls: Vec<_> = (0..20)
        .map(|_| {
            let backend = backend.clone();
            tokio::spawn(async move { backend.enqueue(&[job()]).await })
        })
        .collect();
    gate.add_permits(20);
    for call in calls {
        tokio::time::timeout(LIMIT, call).await.unwrap().unwrap().unwrap();
    }
    // The one by which the backend tried its URL may not be closed yet when the others begin.
    assert!(fake.most_at_once.load(Ordering::SeqCst) <= 3);
    assert!(fake.connections.load(Ordering::SeqCst) <= 3, "connections are kept");
}

#[tokio::test]
async fn a_call_whose_future_is_dropped_runs_to_its_end() {
    let gate = Arc::new(Semaphore::new(0));
    let (closed, held) = (gate.clone(), Arc::new(Semaphore::new(0)));
    let arrived = held.clone();
    let fake = Fake::start(knowing(move |request| {
        if request.contains("turno.retry") {
            arrived.add_permits(1);
            return Reply::After(closed.clone(), Box::new(Reply::Done));
        }
        enqueued(2)
    }))
    .await;
    let backend = backend(&fake).await;
    tokio::select! {
        _ = backend.retry(JobId(1)) => panic!("the server has not answered"),
        permit = held.acquire() => permit.unwrap().forget(),
    }
    gate.add_permits(1);
    backend.enqueue(&[job()]).await.unwrap();
    assert_eq!(fake.count("turno.retry"), 1);
}

/// Rule S5: a refusal cannot be committed, and after it nothing more is sent.
#[tokio::test]
async fn a_transaction_in_which_a_settle_was_refused_does_not_commit() {
    let fake = Fake::start(knowing(|request| match request {
        _ if request.contains("XACT_STATE") => Reply::Rows(vec!["state"], vec![vec![Cell::Number(Some(1))]]),
        _ if request.contains("turno.complete") => Reply::Error(53103, "job 1: the lease is lost"),
        _ => Reply::Done,
    }))
    .await;
    let backend = backend(&fake).await;
    let connection = fake.url().parse::<SqlServerOptions>().unwrap().connect().await.unwrap();
    let mut transaction = SettlingTransaction::begin(&backend, connection).await.unwrap();
    let proof = Proof { job: JobId(1), attempt: 1, token: Token::random() };
    let refused = transaction.complete("w", &Completion { proof, result: None }).await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::LeaseLost);
    assert_eq!(transaction.enqueue(&job()).await.unwrap_err().kind(), ErrorKind::LeaseLost);
    assert_eq!(transaction.commit().await.err().unwrap().kind(), ErrorKind::LeaseLost);
    assert_eq!((fake.count("turno.enqueue"), fake.count("COMMIT TRANSACTION")), (0, 0));
}

/// Rule X3: an error in the caller's own statement has rolled back; a call of ours must not then commit by itself.
#[tokio::test]
async fn a_transaction_that_the_server_took_away_is_lost() {
    let fake = Fake::start(knowing(|request| match request {
        _ if request.contains("XACT_STATE") => Reply::Rows(vec!["state"], vec![vec![Cell::Number(Some(0))]]),
        _ => Reply::Done,
    }))
    .await;
    let backend = backend(&fake).await;
    let connection = fake.url().parse::<SqlServerOptions>().unwrap().connect().await.unwrap();
    let mut transaction = SettlingTransaction::begin(&backend, connection).await.unwrap();
    assert_eq!(transaction.enqueue(&job()).await.unwrap_err().kind(), ErrorKind::TransactionLost);
    assert_eq!(transaction.commit().await.err().unwrap().kind(), ErrorKind::TransactionLost);
    assert_eq!((fake.count("turno.enqueue"), fake.count("COMMIT TRANSACTION")), (0, 0));
}

/// Rule X3.
#[tokio::test]
async fn a_deadlock_in_a_callers_transaction_is_not_made_again() {
    let fake = Fake::start(knowing(|_| Reply::Error(1205, "victim"))).await;
    let backend = backend(&fake).await;
    let mut connection = fake.url().parse::<SqlServerOptions>().unwrap().connect().await.unwrap();
    let error = backend.enqueue_in(&mut connection, &job()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TransactionLost);
    assert_eq!((fake.count("turno.enqueue"), backend.calls_repeated()), (1, 0));
}
