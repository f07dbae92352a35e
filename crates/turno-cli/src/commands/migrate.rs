//! `turno migrate`: create or update the schema, print it for a person, or say what would be done.

use crate::args::App;
use crate::exit::Exit;

/// Options of `turno migrate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  turno migrate --db jobs.db\n  turno migrate --print > turno.sql      \
    for whoever may change the database\n  turno migrate --check || echo 'migrate first'")]
pub struct Args {
    /// Print the whole schema as one script, and change nothing
    #[arg(long, conflicts_with = "check")]
    print: bool,
    /// Only say what would be done; exit status 6 if that is anything
    #[arg(long)]
    check: bool,
}

/// Migrates, or says what that would be.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let location = app.location()?;
    if args.print {
        let script = super::sql::backend_for_text(&location).await?.script();
        app.output.either(&serde_json::json!({ "script": script }), |_| script.trim_end().to_owned())?;
        return Ok(Exit::Ok);
    }
    let backend = if args.check { location.connect().await? } else { location.connect_or_create().await? };
    let report = backend.migrate(args.check).await?;
    let changes = !report.applied.is_empty() || !report.operations.is_empty();
    app.output.either(&report, |report| {
        let verb = if args.check { "would run" } else { "ran" };
        let before = report.version_before.map_or_else(|| "none".to_owned(), |version| version.to_string());
        let mut text = match changes {
            false => format!("the schema is current: version {}", report.version),
            true => format!("schema version {before} to {}", report.version),
        };
        for file in &report.applied {
            text.push_str(&format!("\n{verb} {file}"));
        }
        if !report.operations.is_empty() {
            text.push_str(&format!("\n{verb} {} operations", report.operations.len()));
        }
        text
    })?;
    Ok(if args.check && changes { Exit::Schema } else { Exit::Ok })
}
