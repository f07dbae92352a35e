//! The `turno` command: one command per operation of the contract, plus `run` and `work`. It parses, calls the
//! backend, prints; it refuses to know any SQL or any engine.

#[cfg(not(target_os = "linux"))]
compile_error!(
    "the turno command needs Linux: `run` and `work` end their children by pidfd and parent-death signals"
);

use std::process::ExitCode;

use clap::Parser;

use crate::args::{App, Cli};
use crate::exit::Exit;

mod args;
mod bench;
mod child;
mod commands;
mod db;
mod exit;
mod input;
mod logging;
mod otel;
mod output;
mod parse;
mod run;
mod serve;
mod top;
mod views;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return refused(&error),
    };
    if matches!(cli.command, args::Command::TortureWorker) {
        return turno_torture::worker_main();
    }
    let (json, url) = (cli.global.json, cli.global.db.clone());
    match run_command(cli) {
        Ok(exit) => exit.into(),
        Err(error) if reader_left(&error) => Exit::Ok.into(),
        Err(error) => {
            output::error_line(&error, json, url.as_deref());
            exit::of(&error).into()
        }
    }
}

/// Help, the version, or what is wrong with the arguments: with `--json` among them, as everything else that is wrong.
fn refused(error: &clap::Error) -> ExitCode {
    if error.use_stderr() && std::env::args_os().any(|argument| argument == "--json") {
        let text = error.render().to_string();
        let fault = exit::Fault::usage(text.trim().trim_start_matches("error: "));
        output::error_line(&fault.into(), true, None);
        return Exit::Usage.into();
    }
    // Nobody is left to be told if the stream is closed.
    let _ = error.print();
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn run_command(cli: Cli) -> anyhow::Result<Exit> {
    let mut app = App::new(&cli.global);
    if matches!(cli.command, args::Command::Guard) {
        return Ok(child::guard());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let exit = runtime.block_on(args::dispatch(&mut app, cli.command));
    // What a command printed before it failed is an answer, too.
    let flushed = app.output.flush();
    runtime.shutdown_background();
    let exit = exit?;
    flushed?;
    Ok(exit)
}

/// `turno job list | head` is no failure: whoever read the answer has what they wanted.
fn reader_left(error: &anyhow::Error) -> bool {
    let broken = |error: &std::io::Error| error.kind() == std::io::ErrorKind::BrokenPipe;
    error.downcast_ref::<std::io::Error>().is_some_and(broken)
}
