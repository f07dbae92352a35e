//! Before the first line: the schema, the run's settings, and whether the same command is running under this name.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{Access, access};
use serde_json::{Value, json};
use turno::{BoxedBackend, ErrorKind, Keep, SettingsChange, limits};

use super::args::Args;
use super::{identity, records};
use crate::exit::{Exit, Fault};

/// What is known of the command before the first line.
pub struct Plan {
    /// The program's file, unless its name depends on the line.
    pub program: Option<PathBuf>,
    description: String,
}

impl Plan {
    /// Checks that the command exists, before anything is written.
    pub fn new(args: &Args) -> anyhow::Result<Self> {
        let Some(program) = args.command.first() else {
            return Err(Fault::usage("there is no command after --").into());
        };
        let program = match identity::replace(program, b"") == *program {
            true => Some(find(program).ok_or_else(|| missing(program))?),
            false => None,
        };
        let input = match (args.ndjson, args.null) {
            (true, _) => "ndjson",
            (_, true) => "null",
            _ => "lines",
        };
        let command: Vec<Value> = args.command.iter().map(argument).collect();
        Ok(Plan { program, description: json!({ "turno run": command, "input": input }).to_string() })
    }
}

/// The argument as JSON; one that is not UTF-8 by its bytes.
fn argument(arg: &OsString) -> Value {
    match arg.to_str() {
        Some(text) => text.into(),
        None => json!({ "hex": identity::hex(arg.as_bytes()) }),
    }
}

/// Where the program is: looked for once instead of by every child.
fn find(program: &OsStr) -> Option<PathBuf> {
    let executable = |path: &PathBuf| path.is_file() && access(path, Access::EXEC_OK).is_ok();
    if program.as_bytes().contains(&b'/') {
        return Some(PathBuf::from(program)).filter(executable);
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&path).map(|directory| directory.join(program)).find(executable)
}

fn missing(program: &OsStr) -> Fault {
    Fault::usage(format!("there is no command {}", program.to_string_lossy()))
}

/// Creates the schema in a SQLite file that has none. One that is older, or newer than this program may use, is an error of
/// the first call that needs it.
pub async fn create_schema(backend: &BoxedBackend) -> turno::Result<()> {
    match backend.migrate(true).await {
        Ok(report) if report.version_before.is_none() => backend.migrate(false).await.map(drop),
        Err(error) if error.kind() != ErrorKind::VersionMismatch => Err(error),
        _ => Ok(()),
    }
}

/// Sets up the run's queue. Errors with `Conflict` if another command has this name.
pub async fn prepare(backend: &BoxedBackend, args: &Args, plan: &Plan) -> anyhow::Result<()> {
    let queue = args.queue();
    let settings = backend.queue_list().await?;
    let settings = settings.into_iter().find(|settings| settings.queue.as_ref() == Some(&queue));
    let known = settings.and_then(|settings| settings.description).filter(|text| !text.is_empty());
    if args.again {
        records::forget_all(backend, &queue).await?;
    } else if let Some(known) = known.filter(|known| *known != plan.description) {
        let message = format!(
            "the run {:?} was begun with another command or input: {}; give the run another --name, or forget its \
             records with --again",
            args.name,
            crate::output::one_line(&known, 200)
        );
        return Err(Fault::new(Exit::Conflict, message).into());
    }
    let change = SettingsChange {
        description: Some(plan.description.clone()),
        max_run_limit: Some(limits::MAX_RUN_MAX),
        max_attempts_limit: Some(limits::ATTEMPTS_MAX),
        retry_base: Some(args.retry_base),
        retry_cap: Some(args.retry_cap.max(args.retry_base)),
        keep_succeeded: Some(Keep::Forever),
        keep_cancelled: Some(Keep::Forever),
        keep_dead: Some(Keep::Forever),
        ..SettingsChange::default()
    };
    backend.queue_set(Some(&queue), &change).await?;
    if args.retry_dead {
        records::retry_dead(backend, &queue).await?;
    }
    Ok(())
}
