//! `turno prune`, `reap` and `promote`: the maintenance that workers do by themselves, for a cron job or a person.

use std::time::Duration;

use serde_json::json;

use crate::args::App;
use crate::exit::Exit;
use crate::parse;
use crate::views::{Millis, Reaped};

/// Rows of one batch; each batch is a transaction of its own (rules P7, R1).
const BATCH_ROWS: u32 = 1000;

/// Options of `turno prune`.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "How long records are kept is a setting: `turno queue set --defaults --keep-succeeded 7d`."
)]
pub struct PruneArgs {
    /// Stop after this many jobs; without it, everything whose time is over goes
    #[arg(long)]
    limit: Option<u64>,
}

/// Options of `turno reap`.
#[derive(Debug, clap::Args)]
pub struct ReapArgs {
    /// End at most this many leases; without it, all that have expired
    #[arg(long)]
    limit: Option<u64>,
    /// If nobody has reaped for longer than this, first wait as long, so that live workers can renew after an outage
    #[arg(long, default_value = "0s", value_parser = parse::duration)]
    grace: Duration,
}

/// Options of `turno promote`.
#[derive(Debug, clap::Args)]
pub struct PromoteArgs {
    /// Only this queue; repeat for more
    #[arg(long)]
    queue: Vec<String>,
    /// Make at most this many jobs ready; without it, all that are due
    #[arg(long)]
    limit: Option<u64>,
}

/// Removes records in batches.
pub async fn prune(app: &mut App, args: PruneArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    let (mut jobs, mut refused, mut schedule_runs) = (0, 0, 0);
    while let Some(limit) = next_batch(args.limit, jobs) {
        let pruned = backend.prune(limit).await?;
        jobs += pruned.jobs;
        refused += pruned.refused;
        schedule_runs += pruned.schedule_runs;
        if pruned.jobs == 0 && pruned.refused == 0 && pruned.schedule_runs == 0 {
            break;
        }
    }
    app.output
        .either(&json!({ "jobs": jobs, "refused": refused, "schedule_runs": schedule_runs }), |_| {
            format!("removed {jobs} jobs and {refused} lines of the ledger")
        })?;
    Ok(Exit::Ok)
}

/// Ends expired leases in batches.
pub async fn reap(app: &mut App, args: ReapArgs) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    let (mut jobs, mut holding_for) = (Vec::new(), None);
    while let Some(limit) = next_batch(args.limit, jobs.len() as u64) {
        let reaped = backend.reap(limit, args.grace).await?;
        holding_for = reaped.holding_for;
        jobs.extend(reaped.jobs.iter().map(Reaped::from));
        if reaped.jobs.is_empty() {
            break;
        }
    }
    let n = jobs.len();
    app.output.either(&json!({ "jobs": jobs, "holding_for_ms": holding_for.map(Millis) }), |_| {
        let holding = holding_for.map(|time| format!("; holding back for another {}", parse::show(time)));
        format!("ended {n} expired leases{}", holding.unwrap_or_default())
    })?;
    Ok(Exit::Ok)
}

/// Makes due jobs ready in batches.
pub async fn promote(app: &mut App, args: PromoteArgs) -> anyhow::Result<Exit> {
    for queue in &args.queue {
        turno::check_name("queue", queue)?;
    }
    let backend = app.connect().await?;
    let mut jobs = 0;
    while let Some(limit) = next_batch(args.limit, jobs) {
        let promoted = backend.promote(&args.queue, limit).await?;
        jobs += promoted;
        if promoted == 0 {
            break;
        }
    }
    app.output.either(&json!({ "jobs": jobs }), |_| format!("made {jobs} jobs ready"))?;
    Ok(Exit::Ok)
}

/// The size of the next batch; `None` when the limit is reached.
fn next_batch(limit: Option<u64>, done: u64) -> Option<u32> {
    let left = limit.map_or(u64::MAX, |limit| limit.saturating_sub(done));
    (left > 0).then(|| u32::try_from(left).unwrap_or(u32::MAX).min(BATCH_ROWS))
}
