//! Connections, with the limits that `axum::serve` does not have: how many are open, how long the headers of a request may take,
//! and how a connection ends on which a client is still sending a body that was refused. It refuses to wait for a client.

use std::convert::Infallible;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, Request};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::server::conn::http1::Builder;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::timeout;

use super::extract::BATCH_BYTES_MAX;
use super::problem::Problem;

/// Most open connections, unless somebody says otherwise: with those that are refused, and those to the database, below the 1,024 files that
/// a process may usually open.
pub const CONNECTIONS_MAX: u16 = 800;
/// Most connections that are told at the same time that there are too many; more wait until they are accepted.
const REFUSALS_MAX: usize = 32;
/// How long such a connection lasts.
const REFUSED_WITHIN: Duration = Duration::from_secs(5);
/// How long the headers of a request may take, and so also how long a connection may be idle.
const HEADERS_WITHIN: Duration = Duration::from_secs(15);
/// Most bytes that are thrown away after an answer, so that a client that is still sending sees the answer and no broken pipe.
const LINGER_BYTES_MAX: usize = BATCH_BYTES_MAX;
/// How long that may take.
const LINGER_WITHIN: Duration = Duration::from_secs(10);
/// How many of them are read at once.
const LINGER_BUFFER_BYTES: usize = 16 << 10;
/// How long nobody is accepted after an error that is about this process, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_secs(1);

/// The connections of one port.
#[derive(Debug)]
pub struct Connections {
    max: u16,
    turns: Arc<Semaphore>,
    refusals: Arc<Semaphore>,
}

impl Connections {
    /// None yet; at most so many.
    pub fn new(max: u16) -> Self {
        let (turns, refusals) = (Semaphore::new(max.into()), Semaphore::new(REFUSALS_MAX));
        Connections { max, turns: Arc::new(turns), refusals: Arc::new(refusals) }
    }

    /// How many are open.
    pub fn open(&self) -> usize {
        usize::from(self.max).saturating_sub(self.turns.available_permits())
    }

    /// Serves until it is closing, and then until every request has its answer.
    pub async fn serve(&self, listener: TcpListener, router: Router, closing: watch::Receiver<bool>) {
        let too_many = Router::new().fallback(too_many);
        let mut asked = closing.clone();
        loop {
            let next = async {
                // Nobody closes the semaphore.
                let refusal = Arc::clone(&self.refusals).acquire_owned().await.ok();
                (refusal, accept(&listener).await)
            };
            let (refusal, (stream, peer)) = tokio::select! {
                next = next => next,
                () = closed(&mut asked) => break,
            };
            let closing = closing.clone();
            match Arc::clone(&self.turns).try_acquire_owned() {
                Ok(turn) => {
                    let router = router.clone();
                    tokio::spawn(async move {
                        connection(stream, peer, router, closing).await;
                        drop(turn);
                    });
                }
                Err(_) => {
                    let router = too_many.clone();
                    tokio::spawn(async move {
                        let _ = timeout(REFUSED_WITHIN, connection(stream, peer, router, closing)).await;
                        drop(refusal);
                    });
                }
            }
        }
        drop(listener);
        let _ = self.turns.acquire_many(self.max.into()).await;
    }
}

/// Waits until it is closing; a sender that is gone means the same.
pub async fn closed(closing: &mut watch::Receiver<bool>) {
    let _ = closing.wait_for(|closing| *closing).await;
}

async fn accept(listener: &TcpListener) -> (TcpStream, SocketAddr) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    loop {
        match listener.accept().await {
            Ok(accepted) => return accepted,
            // These are about a connection that is gone already.
            Err(error) if matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) => {
            }
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

async fn too_many() -> Response {
    let detail = "too many connections are open; close those that are idle, or try again";
    let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too_many_connections", detail);
    ([(header::CONNECTION, HeaderValue::from_static("close"))], problem).into_response()
}

/// Serves one connection until either side ends it.
async fn connection(stream: TcpStream, peer: SocketAddr, router: Router, mut closing: watch::Receiver<bool>) {
    let unread = Arc::new(AtomicBool::new(false));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (router, unread) = (router.clone(), Arc::clone(&unread));
        Box::pin(async move { Ok::<_, Infallible>(answer(router, peer, &unread, request).await) })
    });
    let mut http = Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEADERS_WITHIN);
    let mut serving = http.serve_connection(TokioIo::new(stream), service);
    let ended = tokio::select! {
        ended = poll_fn(|context| serving.poll_without_shutdown(context)) => ended,
        () = closed(&mut closing) => {
            Pin::new(&mut serving).graceful_shutdown();
            poll_fn(|context| serving.poll_without_shutdown(context)).await
        }
    };
    // A request that is none was answered as well, and nobody has read the rest of it.
    let is_cut_short = unread.load(Ordering::Relaxed) || ended.is_err_and(|error| error.is_parse());
    if is_cut_short {
        linger(serving.into_parts().io.into_inner()).await;
    }
}

/// The answer to one request. If nobody wanted all of its body, it is the last one of its connection.
async fn answer(
    router: Router,
    peer: SocketAddr,
    unread: &Arc<AtomicBool>,
    request: hyper::Request<Incoming>,
) -> Response {
    unread.store(!request.body().is_end_stream(), Ordering::Relaxed);
    let watched = |body| axum::body::Body::new(Watched { body, unread: Arc::clone(unread) });
    let mut request: Request = request.map(watched);
    request.extensions_mut().insert(ConnectInfo(peer));
    let Ok(mut response) = TowerToHyperService::new(router).call(request).await;
    if unread.load(Ordering::Relaxed) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Says that nothing more will come, and throws away what does. A socket that is closed while something is unread tells the other side to
/// forget what it has not read either: the answer.
async fn linger(mut stream: TcpStream) {
    let _ = stream.shutdown().await;
    let _ = timeout(LINGER_WITHIN, async {
        let (mut buffer, mut left) = (vec![0; LINGER_BUFFER_BYTES], LINGER_BYTES_MAX);
        while let Ok(n) = stream.read(&mut buffer).await
            && n > 0
            && n < left
        {
            left -= n;
        }
    })
    .await;
}

/// A body that notes that it was read to its end.
struct Watched {
    body: Incoming,
    unread: Arc<AtomicBool>,
}

impl Body for Watched {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let frame = Pin::new(&mut self.body).poll_frame(context);
        if matches!(frame, Poll::Ready(None)) || self.body.is_end_stream() {
            self.unread.store(false, Ordering::Relaxed);
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
