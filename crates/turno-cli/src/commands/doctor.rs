//! `turno doctor`: what is wrong around the queue, what it means and what to do. It refuses to fail because something is
//! wrong: also that there is no connection is an answer.

use std::time::Duration;

use turno::doctor::{Check, CheckStatus, DoctorOptions, worst};

use crate::args::App;
use crate::exit::Exit;
use crate::output;
use crate::parse;

/// Most schedules that are looked at, the one that is due for longest first.
const SCHEDULES_MAX: u32 = 100;
/// What it takes to see what is due.
const NEEDS_VIEWER: &str = "make this login a member of the viewer or operator role of this installation";

/// Options of `turno doctor`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Exit status, as monitoring wants it: 0 all is well, 1 a warning, 2 something critical, 3 nothing worse \
than a check that could not be looked at. docs/operating.md has a table of the checks."
)]
pub struct Args {
    /// Leave out this check: its finding is known and accepted; repeat for more
    #[arg(long, value_name = "CHECK", value_parser = known_check)]
    ignore: Vec<String>,
    /// A transaction that is open for this long is a warning, and twelve times as long is critical
    #[arg(long, default_value = "5m", value_parser = parse::duration)]
    long_transaction: Duration,
    /// A due job that has waited for this long waits for a worker
    #[arg(long, default_value = "1m", value_parser = parse::duration)]
    long_wait: Duration,
    /// A queue with waiting jobs that has been paused for this long was forgotten
    #[arg(long, default_value = "1h", value_parser = parse::duration)]
    long_pause: Duration,
    /// How long one look may take before it is given up as unknown; the audit of a large backlog takes longest
    #[arg(long, default_value = "5s", value_parser = parse::duration)]
    look_max: Duration,
}

fn known_check(name: &str) -> Result<String, String> {
    match turno::doctor::CHECKS.iter().any(|(id, _)| *id == name) {
        true => Ok(name.to_owned()),
        false => {
            let names: Vec<&str> = turno::doctor::CHECKS.iter().map(|(id, _)| *id).collect();
            Err(format!("there is no such check; there are {}", names.join(", ")))
        }
    }
}

/// Prints every check, the bad ones first; the worst decides about the status.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let location = app.location()?;
    let Args { long_transaction, long_wait, long_pause, look_max, .. } = args;
    let options = DoctorOptions { long_transaction, long_wait, long_pause, look_max };
    let mut checks = match location.connect().await {
        Ok(backend) => {
            let mut checks = backend.doctor(&options).await;
            // Where the rows can be looked at, this can.
            if checks.iter().any(|check| check.id == "workers") {
                let due = backend.schedule_due(SCHEDULES_MAX).await;
                let judge = |due: &_| turno::doctor::schedules(due, &options);
                checks.push(turno::doctor::look("schedules", &due, NEEDS_VIEWER, judge));
            }
            checks
        }
        Err(error) if crate::exit::of(&error) == Exit::Usage => return Err(error),
        Err(error) => vec![Check::critical(
            "connect",
            output::message(&error, app.url()),
            "start the database, or mend its address, the login and its password, or the network in between",
        )],
    };
    checks.retain(|check| !args.ignore.iter().any(|id| id == check.id));
    // The sort is stable: within a status what the others stand on comes first.
    checks.sort_by_key(|check| std::cmp::Reverse(check.status));
    if app.output.is_json() {
        for check in &checks {
            app.output.document(check)?;
        }
    } else {
        app.output.line(&summary(&checks))?;
        for check in &checks {
            for line in lines(check) {
                app.output.line(&line)?;
            }
        }
    }
    Ok(match worst(&checks) {
        CheckStatus::Ok => Exit::Ok,
        CheckStatus::Warning => Exit::BadNews,
        CheckStatus::Critical => Exit::Critical,
        CheckStatus::Unknown => Exit::Unknown,
    })
}

/// One line, which monitoring shows.
fn summary(checks: &[Check]) -> String {
    let count = |status| checks.iter().filter(|check| check.status == status).count();
    let all = [CheckStatus::Critical, CheckStatus::Warning, CheckStatus::Unknown, CheckStatus::Ok];
    let counts: Vec<String> = all.map(|status| format!("{} {}", count(status), status.as_str())).into();
    format!("turno {}: {}", worst(checks).as_str(), counts.join(", "))
}

fn lines(check: &Check) -> Vec<String> {
    const CHARS_MAX: usize = 1000;
    let text = |text: &str| output::one_line(text, CHARS_MAX);
    let mut lines = vec![format!("{:<9} {:<22} {}", check.status.as_str(), check.id, text(&check.found))];
    if check.status != CheckStatus::Ok {
        lines.push(format!("{:33}which means: {}", "", text(&check.meaning)));
        lines.extend(check.action.iter().map(|action| format!("{:33}to do: {}", "", text(action))));
    }
    lines
}
