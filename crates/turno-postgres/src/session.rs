//! A session of the caller's own on the same server, reached and trusted in the same way, for what is no operation of the
//! queue: a benchmark's comparison, a diagnosis. It refuses to be used by the backend itself.

use futures_util::future::poll_fn;
use tokio_postgres::{AsyncMessage, Client};
use turno_contract::Result;

use crate::error::from_connect;
use crate::options::PostgresOptions;
use crate::tls::connector;

impl PostgresOptions {
    /// Opens a session, driven by a task of the current runtime until the client is dropped. `rung` is called with each
    /// notification.
    pub async fn session(&self, rung: impl Fn() + Send + 'static) -> Result<Client> {
        let tls = connector(&self.target.verify)?;
        let (client, mut connection) = self.target.config.connect(tls).await.map_err(from_connect)?;
        tokio::spawn(async move {
            while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
                if let AsyncMessage::Notification(_) = message {
                    rung();
                }
            }
        });
        Ok(client)
    }

    /// The schema that holds the installation.
    pub fn schema_name(&self) -> &str {
        &self.schema
    }
}
