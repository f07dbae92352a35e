//! The exit statuses, in one place, and how an error becomes one. It refuses to print: `output` does that.

use std::fmt;

use turno::ErrorKind;

/// How the program ends. `HELP` is what `--help` says about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Done as asked.
    Ok,
    /// Done, and the answer is bad news: lines are dead, `audit` found something, a row was refused.
    BadNews,
    /// The command line or the input is wrong; nothing was sent, or the message says what was.
    Usage,
    /// No such job, or its state or its unique key forbids it.
    Conflict,
    /// The database cannot be reached, or stayed busy; the same command may succeed later.
    Unavailable,
    /// The database role lacks the right.
    Permission,
    /// The schema is missing, too old or too new.
    Schema,
    /// A bug, or a database that was changed by hand.
    Internal,
    /// An input or output file failed.
    InputOutput,
    /// Stopped by SIGINT.
    Interrupted,
    /// Stopped by SIGTERM.
    Terminated,
    /// `doctor` found something critical. Its numbers are those that monitoring expects.
    Critical,
    /// `doctor` found nothing worse than what it could not look at.
    Unknown,
}

/// The table that ends `turno --help`.
pub const HELP: &str = "\
Exit status:
    0  done as asked
    1  done, and the answer is bad news: lines are dead, the audit found something
    2  the command line or the input is wrong
    3  no such job, or its state or its unique key forbids it
    4  the database cannot be reached or stayed busy; try again later
    5  the database role lacks the right
    6  the schema is missing, older or newer than this program can use
   70  a bug, or a database that was changed by hand
   74  a file, standard input or standard output failed
  130  stopped by SIGINT
  143  stopped by SIGTERM
doctor alone answers 0 all is well, 1 a warning, 2 something critical, 3 nothing worse than what it could not look at";

impl Exit {
    /// The number.
    pub fn status(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::BadNews => 1,
            Exit::Usage | Exit::Critical => 2,
            Exit::Conflict | Exit::Unknown => 3,
            Exit::Unavailable => 4,
            Exit::Permission => 5,
            Exit::Schema => 6,
            Exit::Internal => 70,
            Exit::InputOutput => 74,
            Exit::Interrupted => 130,
            Exit::Terminated => 143,
        }
    }

    /// The word that `--json` prints for this status when the error has no kind of its own.
    pub fn word(self) -> &'static str {
        match self {
            Exit::Ok => "ok",
            Exit::BadNews => "bad_news",
            Exit::Usage => "invalid_argument",
            Exit::Conflict => "conflict",
            Exit::Unavailable => "unavailable",
            Exit::Permission => "permission_denied",
            Exit::Schema => "version_mismatch",
            Exit::Internal => "internal",
            Exit::InputOutput => "input_output",
            Exit::Interrupted => "interrupted",
            Exit::Terminated => "terminated",
            Exit::Critical => "critical",
            Exit::Unknown => "unknown",
        }
    }
}

impl From<Exit> for std::process::ExitCode {
    fn from(exit: Exit) -> Self {
        std::process::ExitCode::from(exit.status())
    }
}

/// An error that the command line itself found, with the status it leads to.
#[derive(Debug)]
pub struct Fault {
    exit: Exit,
    message: String,
}

impl Fault {
    /// A fault with any status.
    pub fn new(exit: Exit, message: impl Into<String>) -> Self {
        Fault { exit, message: message.into() }
    }

    /// Shorthand for [`Exit::Usage`].
    pub fn usage(message: impl Into<String>) -> Self {
        Fault::new(Exit::Usage, message)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Fault {}

/// The status that an error leads to: the first link of its chain that knows one decides.
pub fn of(error: &anyhow::Error) -> Exit {
    for link in error.chain() {
        if let Some(fault) = link.downcast_ref::<Fault>() {
            return fault.exit;
        }
        if let Some(error) = link.downcast_ref::<turno::Error>() {
            return of_kind(error.kind());
        }
        if link.is::<std::io::Error>() {
            return Exit::InputOutput;
        }
    }
    Exit::Internal
}

/// The word for an error under `--json`: the kind if the database gave one.
pub fn word(error: &anyhow::Error) -> &'static str {
    match error.chain().find_map(|link| link.downcast_ref::<turno::Error>()) {
        Some(error) => error.kind().as_str(),
        None => of(error).word(),
    }
}

fn of_kind(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::InvalidArgument => Exit::Usage,
        ErrorKind::NotFound | ErrorKind::Conflict | ErrorKind::LeaseLost => Exit::Conflict,
        ErrorKind::Busy | ErrorKind::Unavailable | ErrorKind::TransactionLost => Exit::Unavailable,
        ErrorKind::PermissionDenied => Exit::Permission,
        ErrorKind::VersionMismatch => Exit::Schema,
        _ => Exit::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_names_every_status() {
        let all = [
            Exit::Ok,
            Exit::BadNews,
            Exit::Usage,
            Exit::Conflict,
            Exit::Unavailable,
            Exit::Permission,
            Exit::Schema,
            Exit::Internal,
            Exit::InputOutput,
            Exit::Interrupted,
            Exit::Terminated,
        ];
        let named: Vec<&str> =
            HELP.lines().skip(1).map(|line| line.split_whitespace().next().unwrap()).collect();
        let known: Vec<String> = all.iter().map(|exit| exit.status().to_string()).collect();
        assert_eq!(named[..known.len()], known);
        assert_eq!(named[known.len()..], ["doctor"]);
    }

    #[test]
    fn context_does_not_hide_the_kind() {
        let error = anyhow::Error::new(turno::Error::invalid("priority 1001")).context("line 3");
        assert_eq!(of(&error), Exit::Usage);
        assert_eq!(word(&error), "invalid_argument");
    }
}
