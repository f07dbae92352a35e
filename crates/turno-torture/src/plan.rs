//! The plan: which fault, when, where, drawn from the seed alone. It refuses to look at the run: the same seed and the
//! same options give the same plan.

use std::time::Duration;

use crate::options::Fault;
use crate::protocol::Place;
use crate::wire::OPERATIONS;

/// From so many cards in the deck on, steps follow each other at full speed.
const KINDS_AT_FULL_SPEED: usize = 12;

/// Where a fault of the connection strikes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    Worker(usize),
    Producers,
}

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Step {
    Kill {
        worker: usize,
        place: Place,
    },
    /// SIGKILL wherever it happens to be.
    KillAnywhere {
        worker: usize,
    },
    Pause {
        worker: usize,
        place: Place,
        ms: u64,
    },
    DropReply {
        target: Target,
        operation: &'static str,
        silent: bool,
    },
    Cut {
        target: Target,
        operation: &'static str,
        round_trip: u32,
    },
    Restart {
        down_ms: u64,
    },
    Terminate {
        target: Target,
    },
    /// No connection is left to give.
    Refuse {
        target: Target,
        ms: u64,
    },
    Slow {
        target: Target,
        delay_ms: u64,
        ms: u64,
    },
    Hole {
        target: Target,
        ms: u64,
    },
    /// A transaction left open in the middle of `complete_in`.
    HoldComplete {
        worker: usize,
        ms: u64,
    },
    /// A lock on one running row.
    HoldRow {
        ms: u64,
    },
}

impl Step {
    /// Which fault it is.
    pub(crate) fn fault(&self) -> Fault {
        match self {
            Step::Kill { .. } | Step::KillAnywhere { .. } => Fault::Kill,
            Step::Pause { .. } => Fault::Pause,
            Step::DropReply { .. } => Fault::DropReply,
            Step::Cut { .. } => Fault::Cut,
            Step::Restart { .. } => Fault::Restart,
            Step::Terminate { .. } | Step::Refuse { .. } => Fault::Terminate,
            Step::Slow { .. } | Step::Hole { .. } => Fault::Slow,
            Step::HoldComplete { .. } | Step::HoldRow { .. } => Fault::Hold,
        }
    }

    /// Where it strikes, in words, without its numbers.
    pub(crate) fn place(&self) -> String {
        match self {
            Step::Kill { place, .. } | Step::Pause { place, .. } => place.to_string(),
            Step::KillAnywhere { .. } => "anywhere".into(),
            Step::DropReply { operation, silent: false, .. } => format!("{operation}, then closed"),
            Step::DropReply { operation, .. } => format!("{operation}, then silence"),
            Step::Cut { operation, round_trip, .. } => format!("{operation}, round trip {round_trip}"),
            Step::Restart { .. } => "the server".into(),
            Step::Terminate { .. } => "sessions ended".into(),
            Step::Refuse { .. } => "no connection left".into(),
            Step::Slow { .. } => "delays".into(),
            Step::Hole { .. } => "black hole".into(),
            Step::HoldComplete { .. } => "in complete_in".into(),
            Step::HoldRow { .. } => "a running row".into(),
        }
    }
}

/// What the plan has to know of the run.
#[derive(Debug, Clone)]
pub(crate) struct Bounds {
    pub(crate) workers: usize,
    pub(crate) lease: Duration,
    pub(crate) length: Duration,
    /// One writer: whoever holds a transaction open holds up everybody, so it has to be short.
    pub(crate) one_writer: bool,
}

/// A step and when it is due.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Timed {
    pub(crate) at: Duration,
    pub(crate) step: Step,
}

/// Draws the plan. Every fault at every place is dealt once before any comes again.
pub(crate) fn draw(seed: u64, faults: &[Fault], bounds: &Bounds) -> Vec<Timed> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut plan = Vec::new();
    let (mut at, mut deck) = (Duration::from_millis(500), Vec::new());
    let kinds = deal(&mut fastrand::Rng::with_seed(seed), faults, bounds).len();
    if kinds == 0 {
        return plan;
    }
    // Few kinds are not dealt so fast that they find only each other.
    let slower = (KINDS_AT_FULL_SPEED / kinds).max(1) as u64;
    while at < bounds.length {
        if deck.is_empty() {
            deck = deal(&mut random, faults, bounds);
            random.shuffle(&mut deck);
        }
        let Some(step) = deck.pop() else { break };
        plan.push(Timed { at, step });
        at += Duration::from_millis(random.u64(80..360) * slower);
    }
    plan.extend(restarts(&mut random, faults, bounds));
    plan.sort_by_key(|timed| timed.at);
    plan
}

/// Seldom, and not so late that the run ends with it.
fn restarts(random: &mut fastrand::Rng, faults: &[Fault], bounds: &Bounds) -> Vec<Timed> {
    let mut plan = Vec::new();
    let mut at = Duration::from_millis(random.u64(3000..6000));
    while faults.contains(&Fault::Restart) && at < bounds.length {
        plan.push(Timed { at, step: Step::Restart { down_ms: random.u64(0..2500) } });
        at += Duration::from_millis(random.u64(9000..16_000));
    }
    plan
}

fn deal(random: &mut fastrand::Rng, faults: &[Fault], bounds: &Bounds) -> Vec<Step> {
    let mut deck = Vec::new();
    for fault in faults {
        match fault {
            Fault::Kill => kills(random, bounds, &mut deck),
            Fault::Pause => pauses(random, bounds, &mut deck),
            Fault::DropReply => {
                for operation in ["claim", "heartbeat", "complete", "fail", "enqueue"] {
                    let target = target(random, bounds, operation);
                    deck.push(Step::DropReply { target, operation, silent: random.u8(0..4) == 0 });
                }
            }
            Fault::Cut => cuts(random, bounds, &mut deck),
            Fault::Terminate => {
                let target = any_target(random, bounds);
                deck.push(Step::Terminate { target });
                let target = any_target(random, bounds);
                deck.push(Step::Refuse { target, ms: random.u64(200..2500) });
            }
            Fault::Slow => {
                let target = any_target(random, bounds);
                let (delay_ms, ms) = (random.u64(20..400), random.u64(500..3000));
                deck.push(Step::Slow { target, delay_ms, ms });
                let target = any_target(random, bounds);
                deck.push(Step::Hole { target, ms: random.u64(500..5000) });
            }
            Fault::Hold => holds(random, bounds, &mut deck),
            Fault::Restart | Fault::Clock => {}
        }
    }
    deck
}

fn kills(random: &mut fastrand::Rng, bounds: &Bounds, deck: &mut Vec<Step>) {
    for place in [Place::Claimed, Place::Handler, Place::Effect, Place::Completing, Place::Shutdown] {
        deck.push(Step::Kill { worker: random.usize(0..bounds.workers), place });
    }
    deck.push(Step::KillAnywhere { worker: random.usize(0..bounds.workers) });
}

fn pauses(random: &mut fastrand::Rng, bounds: &Bounds, deck: &mut Vec<Step>) {
    let lease_ms = bounds.lease.as_millis() as u64;
    for place in [Place::Claimed, Place::Handler, Place::Effect, Place::Completing, Place::Shutdown] {
        let ms = random.u64(lease_ms * 3 / 2..lease_ms * 3);
        deck.push(Step::Pause { worker: random.usize(0..bounds.workers), place, ms });
    }
}

fn cuts(random: &mut fastrand::Rng, bounds: &Bounds, deck: &mut Vec<Step>) {
    for operation in OPERATIONS {
        let target = target(random, bounds, operation);
        deck.push(Step::Cut { target, operation, round_trip: random.u32(1..=3) });
    }
}

fn holds(random: &mut fastrand::Rng, bounds: &Bounds, deck: &mut Vec<Step>) {
    let lease_ms = bounds.lease.as_millis() as u64;
    let mut ms = || match bounds.one_writer {
        true => random.u64(20..lease_ms / 5),
        false => random.u64(lease_ms..lease_ms * 2),
    };
    let (in_complete, row) = (ms(), ms());
    deck.push(Step::HoldComplete { worker: random.usize(0..bounds.workers), ms: in_complete });
    deck.push(Step::HoldRow { ms: row });
}

fn target(random: &mut fastrand::Rng, bounds: &Bounds, operation: &str) -> Target {
    match operation {
        "enqueue" => Target::Producers,
        _ => Target::Worker(random.usize(0..bounds.workers)),
    }
}

fn any_target(random: &mut fastrand::Rng, bounds: &Bounds) -> Target {
    match random.usize(0..bounds.workers + 1) {
        0 => Target::Producers,
        n => Target::Worker(n - 1),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn bounds(seconds: u64) -> Bounds {
        let lease = Duration::from_millis(1500);
        Bounds { workers: 8, lease, length: Duration::from_secs(seconds), one_writer: false }
    }

    #[test]
    fn the_same_seed_draws_the_same_plan_and_another_seed_another() {
        let plan = draw(7, &Fault::ALL, &bounds(60));
        assert_eq!(plan, draw(7, &Fault::ALL, &bounds(60)));
        assert_ne!(plan, draw(8, &Fault::ALL, &bounds(60)));
    }

    #[test]
    fn a_minute_has_every_fault_at_every_place() {
        let plan = draw(1, &Fault::ALL, &bounds(60));
        let places: HashSet<String> =
            plan.iter().map(|timed| format!("{} {}", timed.step.fault(), timed.step.place())).collect();
        for wanted in
            ["kill after the claim", "kill during shutdown", "pause after the effect", "hold a running row"]
        {
            assert!(places.contains(wanted), "no {wanted} in {places:?}");
        }
        let round_trips: HashSet<u32> = plan
            .iter()
            .filter_map(|timed| match timed.step {
                Step::Cut { round_trip, .. } => Some(round_trip),
                _ => None,
            })
            .collect();
        assert_eq!(round_trips, HashSet::from([1, 2, 3]));
    }

    #[test]
    fn without_faults_there_is_nothing_to_do() {
        assert!(draw(1, &[], &bounds(60)).is_empty());
        assert!(draw(1, &[Fault::Clock], &bounds(60)).is_empty());
    }
}
