//! W4: jobs pass while somebody's transaction keeps the database from forgetting old rows. One worker lives through all
//! of it, as in life; what a new one would see is measured at the end.

use std::time::{Duration, Instant};

use serde_json::json;
use turno::{ClaimRequest, Release, Token};
use turno_floor::Hold;

use super::Bench;
use super::figure::Figure;
use super::kit::{jobs, queue, rate};

/// Jobs of one round.
const ROUND_JOBS: u64 = 20_000;

impl Bench<'_> {
    /// Runs W4 with each kind of hold.
    pub(super) async fn held(&mut self) -> anyhow::Result<()> {
        let holds = Hold::ALL.into_iter().filter(|how| self.args.hold.is_none_or(|wanted| wanted.is(*how)));
        for how in holds.collect::<Vec<_>>() {
            let Some(holding) = self.floor.hold(how).await? else {
                return self.skip("W4", "this engine keeps no dead rows in the way of a claim");
            };
            let rounds = self.rounds_under_hold().await?;
            let after = self.first_looks().await?;
            drop(holding);
            let edge = (rounds.len() / 10).clamp(1, 3);
            let mean = |rates: &[f64]| rates.iter().sum::<f64>() / rates.len() as f64;
            let (first, last) = (mean(&rounds[..edge]), mean(&rounds[rounds.len() - edge..]));
            let figure = Figure::new("W4", format!("last rounds, {}", how.as_str()), last, "jobs/s")
                .ratio(last / first)
                .at_least(0.85)
                .detail("first", first)
                .detail("stats_ms", after.stats.as_secs_f64() * 1e3)
                .detail("held_ms", after.held.as_secs_f64() * 1e3)
                .detail("first_claim_ms", after.claim.as_secs_f64() * 1e3)
                .detail("rounds", json!(rounds.iter().map(|rate| rate.round()).collect::<Vec<f64>>()));
            self.print(&figure)?;
            self.floor.clear().await?;
        }
        Ok(())
    }

    async fn rounds_under_hold(&self) -> anyhow::Result<Vec<f64>> {
        let queue = queue("held");
        let round_jobs = ROUND_JOBS.min(self.sizes.held);
        let crew = self.crew(&queue, self.sizes.held).await?;
        let (mut rates, mut passed) = (Vec::new(), 0);
        while passed < self.sizes.held {
            let round = jobs(&queue, round_jobs, None);
            self.backend.enqueue(&round).await?;
            let begun = Instant::now();
            passed += round_jobs;
            crew.settled(passed).await?;
            rates.push(rate(round_jobs, begun.elapsed()));
        }
        crew.stop().await?;
        Ok(rates)
    }

    /// What somebody sees who has seen nothing before.
    async fn first_looks(&self) -> anyhow::Result<Looks> {
        let queue = queue("held");
        self.backend.enqueue(&jobs(&queue, 10, None)).await?;
        let newcomer = turno::connect(&self.url).await?;
        // The first call of a session plans; that is not what is asked here.
        newcomer.held(Token::random()).await?;
        let begun = Instant::now();
        newcomer.stats(Duration::from_secs(60)).await?;
        let stats = begun.elapsed();
        let begun = Instant::now();
        newcomer.held(Token::random()).await?;
        let held = begun.elapsed();
        let request = ClaimRequest::one(&queue, "newcomer").limit(10);
        let begun = Instant::now();
        let claimed = newcomer.claim(&request).await?;
        let claim = begun.elapsed();
        let releases: Vec<Release> =
            claimed.jobs.iter().map(|job| Release { proof: job.proof, delay: None }).collect();
        newcomer.release("newcomer", &releases).await?;
        Ok(Looks { stats, held, claim })
    }
}

/// How long each took.
struct Looks {
    stats: Duration,
    held: Duration,
    claim: Duration,
}
