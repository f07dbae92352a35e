//! `turno completions`: a script of completions for a shell.

use crate::exit::Exit;

/// Options of `turno completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turno completions bash > /etc/bash_completion.d/turno")]
pub struct Args {
    /// The shell
    shell: clap_complete::Shell,
}

/// Prints the script.
pub fn run(args: Args, command: &mut clap::Command) -> anyhow::Result<Exit> {
    clap_complete::generate(args.shell, command, "turno", &mut std::io::stdout());
    Ok(Exit::Ok)
}
