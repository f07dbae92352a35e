//! `turno man`: the manual pages, written from the same definitions as `--help`. It refuses to say anything that `--help`
//! does not.

use std::path::PathBuf;

use anyhow::Context;

use crate::exit::Exit;

/// Options of `turno man`.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  turno man ~/.local/share/man/man1 && man turno-work")]
pub struct Args {
    /// The folder; it is created if it is not there
    folder: PathBuf,
}

/// Writes a page for turno and one for each command.
pub fn run(args: Args, command: clap::Command) -> anyhow::Result<Exit> {
    let folder = args.folder.display();
    std::fs::create_dir_all(&args.folder).with_context(|| format!("cannot make the folder {folder}"))?;
    clap_mangen::generate_to(command, &args.folder).with_context(|| format!("cannot write into {folder}"))?;
    Ok(Exit::Ok)
}
