//! `turno sql`: the text of an operation, for whoever wants to read it or call it from another language.

use turno::BoxedBackend;

use crate::args::App;
use crate::db::Location;
use crate::exit::{Exit, Fault};

/// Options of `turno sql`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turno sql claim --db jobs.db")]
pub struct Args {
    /// The operation; without it, the names of all are listed
    operation: Option<String>,
}

/// Prints the text of one operation, or the names of all.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let backend = backend_for_text(&app.location()?).await?;
    let Some(operation) = args.operation else {
        for name in backend.operations() {
            app.output.either(&serde_json::json!({ "operation": name }), |_| name.to_owned())?;
        }
        return Ok(Exit::Ok);
    };
    let Some(text) = backend.sql(&operation) else {
        let names = backend.operations().join(", ");
        return Err(Fault::usage(format!("there is no operation {operation:?}; there are {names}")).into());
    };
    let document = serde_json::json!({ "operation": operation, "engine": backend.engine(), "sql": text });
    app.output.either(&document, |_| text.trim_end().to_owned())?;
    Ok(Exit::Ok)
}

/// A backend that is only asked for its texts, so a SQLite file need not exist and none is created.
pub async fn backend_for_text(location: &Location) -> anyhow::Result<BoxedBackend> {
    match location.is_file() {
        true => Location::parse("sqlite::memory:")?.connect_or_create().await,
        false => location.connect().await,
    }
}
