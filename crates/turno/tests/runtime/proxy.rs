//! A TCP proxy in front of the PostgreSQL server that can lose the server's answers and break its connections.

use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Which answers get lost.
#[derive(Default)]
enum Losing {
    #[default]
    None,
    /// The first one that contains these bytes, and all after it.
    From(Vec<u8>),
    All,
}

impl Losing {
    /// Whether this answer is lost.
    fn loses(&mut self, answer: &[u8]) -> bool {
        if let Losing::From(marker) = self
            && answer.windows(marker.len()).any(|window| window == marker)
        {
            *self = Losing::All;
        }
        matches!(self, Losing::All)
    }
}

pub struct Proxy {
    /// The database's URL, through the proxy.
    pub url: String,
    losing: Arc<Mutex<Losing>>,
    broken: watch::Sender<u64>,
}

impl Proxy {
    /// Listens on a free port. `url` must name host and port.
    pub async fn start(url: &str) -> Self {
        let (credentials, rest) = url.rsplit_once('@').expect("a URL with a user");
        let (server, database) = rest.split_once('/').expect("a URL with a database");
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let url = format!("{credentials}@127.0.0.1:{port}/{database}");
        let (losing, broken) = (Arc::default(), watch::Sender::new(0));
        tokio::spawn(accept(listener, server.to_owned(), Arc::clone(&losing), broken.clone()));
        Proxy { url, losing, broken }
    }

    /// From the server's first answer with this text on, the server hears everything and nobody hears the server.
    pub fn lose_answers_from(&self, marker: &str) {
        *self.losing.lock().expect("no panic with this lock") = Losing::From(marker.into());
    }

    /// Whether an answer has been lost already.
    pub fn has_lost(&self) -> bool {
        matches!(*self.losing.lock().expect("no panic with this lock"), Losing::All)
    }

    /// Breaks every connection; new ones work.
    pub fn break_connections(&self) {
        *self.losing.lock().expect("no panic with this lock") = Losing::None;
        self.broken.send_modify(|times| *times += 1);
    }
}

async fn accept(
    listener: TcpListener,
    server: String,
    losing: Arc<Mutex<Losing>>,
    broken: watch::Sender<u64>,
) {
    while let Ok((client, _)) = listener.accept().await {
        let (server, losing, mut broken) = (server.clone(), Arc::clone(&losing), broken.subscribe());
        tokio::spawn(async move {
            let Ok(server) = TcpStream::connect(server).await else { return };
            let (from_client, to_client) = client.into_split();
            let (from_server, to_server) = server.into_split();
            tokio::select! {
                () = copy(from_client, to_server, None) => {}
                () = copy(from_server, to_client, Some(losing)) => {}
                _ = broken.changed() => {}
            }
        });
    }
}

async fn copy(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, losing: Option<Arc<Mutex<Losing>>>) {
    let mut buffer = vec![0; 65_536];
    loop {
        let Ok(n @ 1..) = from.read(&mut buffer).await else { return };
        if losing
            .as_ref()
            .is_some_and(|losing| losing.lock().expect("no panic with this lock").loses(&buffer[..n]))
        {
            continue;
        }
        if to.write_all(&buffer[..n]).await.is_err() {
            return;
        }
    }
}
