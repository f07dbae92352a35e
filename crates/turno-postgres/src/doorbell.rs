//! The listening connection. It is a hint and never the only way to find work: whatever happens here costs a sleeper at
//! most one pause.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::poll_fn;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio_postgres::{AsyncMessage, Client};
use turno_contract::{Error, Result};

use crate::error::from_connect;
use crate::options::{PostgresOptions, Target};
use crate::tls::connector;

/// Longest pause between two attempts to listen.
const RECONNECT_MAX: Duration = Duration::from_secs(10);
/// How often a silent connection is asked whether it is still there, and how long it may take to answer. TCP alone would
/// take minutes to notice a peer that is gone without a word.
const PROBE_EVERY: Duration = Duration::from_secs(15);
const PROBE_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Doorbell {
    rung: Arc<watch::Sender<u64>>,
    target: Option<Target>,
    channel: String,
    started: AtomicBool,
    connected: Arc<AtomicBool>,
    handle: Handle,
}

impl Doorbell {
    pub(crate) fn new(options: &PostgresOptions, handle: Handle) -> Self {
        Doorbell {
            rung: Arc::new(watch::Sender::new(0)),
            target: options.listen.clone(),
            channel: options.schema.clone(),
            started: AtomicBool::new(false),
            connected: Arc::new(AtomicBool::new(false)),
            handle,
        }
    }

    /// Whether anybody in this process could hear a ring.
    pub(crate) fn listens(&self) -> bool {
        self.target.is_some() && self.started.load(Ordering::Relaxed)
    }

    /// Whether it holds a connection now.
    pub(crate) fn is_connected(&self) -> bool {
        self.connected.load(Ordering::Relaxed)
    }

    /// Starts listening with the first subscriber: a process that only enqueues needs no third connection.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        if let Some(target) = &self.target
            && !self.started.swap(true, Ordering::Relaxed)
        {
            let (target, channel, rung) = (target.clone(), self.channel.clone(), self.rung.clone());
            self.handle.spawn(listen_for_ever(target, channel, rung, self.connected.clone()));
        }
        self.rung.subscribe()
    }
}

async fn listen_for_ever(
    target: Target,
    channel: String,
    rung: Arc<watch::Sender<u64>>,
    connected: Arc<AtomicBool>,
) {
    let mut pause = Duration::from_millis(100);
    loop {
        let outcome = listen(&target, &channel, &rung, &connected).await;
        connected.store(false, Ordering::Relaxed);
        let heard = match outcome {
            Ok(heard) => heard,
            Err(error) => {
                tracing::warn!(%error, "the doorbell does not listen; workers poll until it does");
                false
            }
        };
        pause = if heard { Duration::from_millis(100) } else { (pause * 2).min(RECONNECT_MAX) };
        tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0)).await;
    }
}

/// Listens until the connection ends. Answers whether it ever listened.
async fn listen(
    target: &Target,
    channel: &str,
    rung: &Arc<watch::Sender<u64>>,
    connected: &AtomicBool,
) -> Result<bool> {
    let (client, mut connection) =
        target.config.connect(connector(&target.verify)?).await.map_err(from_connect)?;
    connected.store(true, Ordering::Relaxed);
    let bell = rung.clone();
    let driver = tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(_) = message {
                bell.send_modify(|rings| *rings += 1);
            }
        }
    });
    let outcome = converse(&client, channel, rung).await;
    driver.abort();
    outcome
}

async fn converse(client: &Client, channel: &str, rung: &Arc<watch::Sender<u64>>) -> Result<bool> {
    // The channel is a schema name of lower-case letters, digits and underscores.
    ask(client, &format!("LISTEN {channel}")).await?;
    tracing::debug!(channel, "the doorbell listens");
    // Rings may have been lost while nobody listened: everybody looks once.
    rung.send_modify(|rings| *rings += 1);
    warn_if_deaf(client, channel, rung).await?;
    loop {
        tokio::time::sleep(PROBE_EVERY).await;
        if let Err(error) = ask(client, "").await {
            tracing::warn!(%error, "the doorbell's connection was lost; listening again");
            return Ok(true);
        }
    }
}

/// A pooler in transaction mode accepts LISTEN and delivers nothing. Ringing our own bell shows it.
async fn warn_if_deaf(client: &Client, channel: &str, rung: &Arc<watch::Sender<u64>>) -> Result<()> {
    let mut heard = rung.subscribe();
    ask(client, &format!("NOTIFY {channel}")).await?;
    if tokio::time::timeout(PROBE_TIMEOUT, heard.changed()).await.is_err() {
        tracing::warn!(channel, "notifications do not arrive (a pooler?): workers poll; see turno_listen");
    }
    Ok(())
}

async fn ask(client: &Client, sql: &str) -> Result<()> {
    match tokio::time::timeout(PROBE_TIMEOUT, client.batch_execute(sql)).await {
        Ok(answer) => answer.map_err(from_connect),
        Err(_) => Err(Error::new(turno_contract::ErrorKind::Unavailable, "the server does not answer")),
    }
}
