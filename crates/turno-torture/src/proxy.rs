//! A TCP proxy between one process and the database's server, which loses answers, cuts connections, delays, and goes
//! dark. It refuses to decide when: a fault is armed from outside, strikes once, and says so.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};
use turno::{Error, ErrorKind, Result};

use crate::engine::{protocol, with_host};
use crate::wire::{Protocol, Talk};

/// How long a connection whose answer was swallowed stays open without a word, if it is not closed at once.
const SILENCE: Duration = Duration::from_secs(4);

/// What strikes the next call of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Strike {
    /// The answer is swallowed once the server has sent it whole. Then the connection is closed, or falls silent.
    DropReply { operation: &'static str, silent: bool },
    /// The connection is closed right after round trip `n` of this operation was sent.
    Cut { operation: &'static str, round_trip: u32 },
}

/// How the proxy treats everything that passes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Weather {
    Clear,
    /// Every answer comes later.
    Slow(Duration),
    /// Nothing passes and nothing is closed; what was caught in it is closed afterwards.
    Hole,
    /// New connections are answered that there are too many.
    Refuse,
}

struct Armed {
    strike: Strike,
    round_trips: u32,
    struck: oneshot::Sender<()>,
}

struct Shared {
    server: String,
    protocol: Protocol,
    /// Sessions behind the connections that are open, as far as the server numbers them.
    sessions: Mutex<HashSet<u32>>,
    armed: Mutex<Option<Armed>>,
    weather: watch::Sender<Weather>,
    broken: watch::Sender<u64>,
}

impl Shared {
    fn armed(&self) -> MutexGuard<'_, Option<Armed>> {
        lock(&self.armed)
    }
}

/// One proxy.
pub(crate) struct Proxy {
    /// The database's URL, through it.
    pub(crate) url: String,
    /// One strike at a time: who holds this may arm one.
    pub(crate) striking: tokio::sync::Mutex<()>,
    shared: Arc<Shared>,
}

impl Proxy {
    /// Listens on a free port of the loopback address.
    pub(crate) async fn start(url: &str, application: &str) -> Result<Self> {
        let failed = |error: std::io::Error| {
            Error::new(ErrorKind::Internal, format!("the proxy cannot listen: {error}")).with_source(error)
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?.to_string();
        let no_host = || Error::invalid("the URL has no host to put a proxy before");
        let protocol = protocol(url).ok_or_else(no_host)?;
        let (url, server) = with_host(url, &address, application).ok_or_else(no_host)?;
        let (weather, broken) = (watch::Sender::new(Weather::Clear), watch::Sender::new(0));
        let shared = Arc::new(Shared {
            server,
            protocol,
            sessions: Mutex::default(),
            armed: Mutex::default(),
            weather,
            broken,
        });
        tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Proxy { url, striking: tokio::sync::Mutex::default(), shared })
    }

    /// Arms a fault; the receiver hears when it has struck.
    pub(crate) fn arm(&self, strike: Strike) -> oneshot::Receiver<()> {
        let (struck, receiver) = oneshot::channel();
        *self.shared.armed() = Some(Armed { strike, round_trips: 0, struck });
        receiver
    }

    /// Takes back a fault that did not strike.
    pub(crate) fn disarm(&self) {
        *self.shared.armed() = None;
    }

    /// The server's numbers of the sessions that go through here.
    pub(crate) fn sessions(&self) -> Vec<u32> {
        lock(&self.shared.sessions).iter().copied().collect()
    }

    pub(crate) fn set_weather(&self, weather: Weather) {
        self.shared.weather.send_replace(weather);
    }

    /// Closes every connection; new ones work.
    pub(crate) fn break_connections(&self) {
        self.shared.broken.send_modify(|times| *times += 1);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    while let Ok((client, _)) = listener.accept().await {
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            let weather = *shared.weather.borrow();
            match weather {
                Weather::Refuse => refuse(client, shared.protocol).await,
                _ => serve(client, &shared).await,
            }
        });
    }
}

/// Where the client speaks first, it does not listen before it has.
async fn refuse(mut client: TcpStream, protocol: Protocol) {
    let (mut said, mut listens) = ([0; 1024], protocol.server_speaks_first());
    for answer in protocol.too_many_connections() {
        if !listens && !client.read(&mut said).await.is_ok_and(|n| n > 0) {
            return;
        }
        listens = false;
        // Whoever went away need not be told.
        let _ = client.write_all(&answer).await;
    }
}

async fn serve(client: TcpStream, shared: &Arc<Shared>) {
    // Subscribed first, so that a break from here on is not missed.
    let mut broken = shared.broken.subscribe();
    out_of_the_hole(shared).await;
    let Ok(server) = TcpStream::connect(&shared.server).await else { return };
    // Small answers must not wait for each other.
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let talk = Mutex::new(shared.protocol.talk());
    tokio::select! {
        () = requests(from_client, to_server, &talk, shared) => {}
        () = answers(from_server, to_client, &talk, shared) => {}
        _ = broken.changed() => {}
    }
    if let Some(session) = lock(&talk).session() {
        lock(&shared.sessions).remove(&session);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits while nothing may pass; says whether it had to.
async fn out_of_the_hole(shared: &Shared) -> bool {
    let mut weather = shared.weather.subscribe();
    let caught = *weather.borrow() == Weather::Hole;
    // The sender lives as long as the proxy.
    let _ = weather.wait_for(|weather| *weather != Weather::Hole).await;
    caught
}

async fn requests(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, talk: &Mutex<Talk>, shared: &Shared) {
    let (mut framer, mut buffer) = (shared.protocol.client_framer(), vec![0; 65_536]);
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { return };
        if out_of_the_hole(shared).await {
            return;
        }
        framer.push(&buffer[..n]);
        while let Some(message) = framer.next() {
            let group = lock(talk).client_message(&message);
            if to.write_all(&message).await.is_err() {
                return;
            }
            if group.is_some_and(|group| cuts(shared, group.operation)) {
                return;
            }
        }
    }
}

/// Whether the connection is cut now.
fn cuts(shared: &Shared, operation: Option<&'static str>) -> bool {
    let mut armed = shared.armed();
    let Some(Armed { strike: Strike::Cut { operation: wanted, round_trip }, round_trips, .. }) = &mut *armed
    else {
        return false;
    };
    if operation != Some(*wanted) {
        return false;
    }
    *round_trips += 1;
    if *round_trips < *round_trip {
        return false;
    }
    strike(&mut armed);
    true
}

fn strike(armed: &mut Option<Armed>) {
    if let Some(armed) = armed.take() {
        // Whoever armed it may have stopped waiting.
        let _ = armed.struck.send(());
    }
}

async fn answers(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, talk: &Mutex<Talk>, shared: &Shared) {
    let (mut framer, mut buffer) = (shared.protocol.server_framer(), vec![0; 65_536]);
    let mut named = false;
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { return };
        let weather = *shared.weather.borrow();
        if let Weather::Slow(delay) = weather {
            tokio::time::sleep(delay).await;
        }
        if out_of_the_hole(shared).await {
            return;
        }
        framer.push(&buffer[..n]);
        while let Some(message) = framer.next() {
            let silent = swallows(shared, talk);
            let ends = lock(talk).server_message(&message);
            named = named || note_session(shared, talk);
            if ends && let Some(silent) = silent {
                strike(&mut shared.armed());
                if silent {
                    tokio::time::sleep(SILENCE).await;
                }
                return;
            }
            if silent.is_none() && to.write_all(&message).await.is_err() {
                return;
            }
        }
    }
}

/// Notes the session's number; says whether it is known by now.
fn note_session(shared: &Shared, talk: &Mutex<Talk>) -> bool {
    let Some(session) = lock(talk).session() else { return false };
    lock(&shared.sessions).insert(session);
    true
}

/// Whether the answer that is coming in is to be lost, and whether the connection then falls silent.
fn swallows(shared: &Shared, talk: &Mutex<Talk>) -> Option<bool> {
    let group = lock(talk).answering().filter(|group| group.executes)?;
    match shared.armed().as_ref()?.strike {
        Strike::DropReply { operation, silent } if group.operation == Some(operation) => Some(silent),
        _ => None,
    }
}

#[cfg(all(test, feature = "sqlserver"))]
#[path = "proxy_tds_tests.rs"]
mod tds_tests;
