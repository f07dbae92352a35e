//! Tests that need to see inside: the plans of every statement, and the writing thread in trouble.

mod plans;
mod trouble;

use crate::{SqliteBackend, SqliteOptions};
use turno_contract::Backend;

/// A backend on a new file, migrated.
async fn backend(folder: &tempfile::TempDir) -> SqliteBackend {
    let path = folder.path().join("queue.db");
    let backend = SqliteBackend::connect(path.to_str().unwrap(), SqliteOptions::default()).await.unwrap();
    backend.migrate(false).await.unwrap();
    backend
}
