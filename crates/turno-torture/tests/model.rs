//! A small, exhaustive model of the state machine: one job, two workers, one reaper, a network that loses, repeats and
//! reorders every message, workers that stop for as long as they like or forget everything, and somebody who shows
//! wrong proofs. Every reachable state keeps the invariants of ARCHITECTURE.md, and each of the four mutations is found.

use std::collections::BTreeSet;

use stateright::{Checker, HasDiscoveries, Model, Property};

/// Failure budget of the job.
const MAX_ATTEMPTS: u8 = 2;
/// How far the search goes: one more than any run without a mutation may reach (releases are not charged).
const ATTEMPTS_SEARCHED: u8 = 4;
/// How often each worker claims, and how its handlers end: as much as the invariants need, and few enough states to be
/// looked at in seconds.
const CLAIMS_MAX: [u8; 2] = [2, 1];
const VERBS: [[Verb; 2]; 2] = [[Verb::Complete, Verb::Release], [Verb::Complete, Verb::Fail]];
/// A token that nobody was given.
const FORGED: u8 = 9;

type Attempt = u8;
type Token = u8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Verb {
    Complete,
    Fail,
    Release,
    Expire,
}

/// Requests and answers that are on their way. None is ever taken out: each may come never, once, or many times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Message {
    Claim { worker: usize, token: Token },
    Claimed { worker: usize, attempt: Attempt, token: Token },
    Settle { attempt: Attempt, token: Token, verb: Verb },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Job {
    Ready,
    Running { token: Token, lease_over: bool },
    Succeeded,
    Dead,
}

/// How one attempt ended, and what was shown for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct End {
    attempt: Attempt,
    token: Token,
    verb: Verb,
    charged: bool,
    /// The proof that was shown; for the reaper, the one whose lease it ended.
    shown: (Attempt, Token),
    lease_over: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Worker {
    Idle { claims: u8 },
    Claiming { claims: u8, token: Token },
    Working { claims: u8, attempt: Attempt, token: Token },
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct World {
    job: Job,
    attempt: Attempt,
    failures: u8,
    ends: Vec<End>,
    workers: [Worker; 2],
    network: BTreeSet<Message>,
    /// A result was refused while a later attempt ran.
    late_refused: bool,
    /// A result was refused although its proof was the current one.
    owner_refused: bool,
    /// A repeat was answered with what had been recorded.
    told_already: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Action {
    Ask(usize),
    Settle(usize, Verb),
    Forget(usize),
    Deliver(Message),
    LeaseEnds,
    Heartbeat(usize),
    Reap,
    Forge,
}

/// What is left out of the rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mutation {
    None,
    NoToken,
    NoAttempt,
    ReaperUnconditional,
    ExpiryUncharged,
}

struct Rules(Mutation);

impl Rules {
    /// Whether this is the current proof.
    fn proves(&self, world: &World, attempt: Attempt, token: Token) -> bool {
        let Job::Running { token: current, .. } = world.job else { return false };
        let attempt_fits = attempt == world.attempt || self.0 == Mutation::NoAttempt;
        let token_fits = token == current || self.0 == Mutation::NoToken;
        attempt_fits && token_fits
    }

    fn end(&self, world: &mut World, verb: Verb, shown: (Attempt, Token)) {
        let Job::Running { token, lease_over } = world.job else { return };
        let charged = match verb {
            Verb::Fail => true,
            Verb::Expire => self.0 != Mutation::ExpiryUncharged,
            Verb::Complete | Verb::Release => false,
        };
        world.failures += u8::from(charged);
        world.ends.push(End { attempt: world.attempt, token, verb, charged, shown, lease_over });
        world.job = match verb {
            Verb::Complete => Job::Succeeded,
            _ if charged && world.failures >= MAX_ATTEMPTS => Job::Dead,
            _ => Job::Ready,
        };
    }

    fn settle(&self, world: &mut World, attempt: Attempt, token: Token, verb: Verb) {
        if self.proves(world, attempt, token) {
            self.end(world, verb, (attempt, token));
            return;
        }
        let before = world.ends.iter().find(|end| end.shown == (attempt, token) && end.verb != Verb::Expire);
        if before.is_some_and(|end| end.verb == verb) {
            world.told_already = true;
            return;
        }
        let Job::Running { token: current, .. } = world.job else { return };
        world.late_refused |= token != FORGED && attempt < world.attempt;
        world.owner_refused |= (attempt, token) == (world.attempt, current);
    }

    fn claim(world: &mut World, worker: usize, token: Token) {
        match world.job {
            Job::Ready => {
                world.attempt += 1;
                world.job = Job::Running { token, lease_over: false };
            }
            // The answer to this token's claim was lost: it gets the same again.
            Job::Running { token: current, .. } if current == token => {}
            _ => return,
        }
        world.network.insert(Message::Claimed { worker, attempt: world.attempt, token });
    }
}

/// The first worker shows the same token with every claim, which a careful one never does; the second a new one.
fn token_of(worker: usize, claims: u8) -> Token {
    if worker == 0 { 1 } else { 2 + claims }
}

impl Model for Rules {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        vec![World {
            job: Job::Ready,
            attempt: 0,
            failures: 0,
            ends: Vec::new(),
            workers: [Worker::Idle { claims: 0 }; 2],
            network: BTreeSet::new(),
            late_refused: false,
            owner_refused: false,
            told_already: false,
        }]
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (index, worker) in world.workers.iter().enumerate() {
            match worker {
                Worker::Idle { claims } if *claims < CLAIMS_MAX[index] => actions.push(Action::Ask(index)),
                Worker::Idle { .. } => {}
                Worker::Claiming { .. } => actions.push(Action::Forget(index)),
                Worker::Working { .. } => {
                    actions.extend(VERBS[index].map(|verb| Action::Settle(index, verb)));
                    actions.extend([Action::Forget(index), Action::Heartbeat(index)]);
                }
            }
        }
        actions.extend(world.network.iter().copied().map(Action::Deliver));
        if let Job::Running { lease_over, .. } = world.job {
            actions.push(Action::Forge);
            if !lease_over {
                actions.push(Action::LeaseEnds);
            }
            if lease_over || self.0 == Mutation::ReaperUnconditional {
                actions.push(Action::Reap);
            }
        }
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let mut world = before.clone();
        match action {
            Action::Ask(index) => {
                let Worker::Idle { claims } = world.workers[index] else { return None };
                let token = token_of(index, claims);
                world.workers[index] = Worker::Claiming { claims: claims + 1, token };
                world.network.insert(Message::Claim { worker: index, token });
            }
            Action::Settle(index, verb) => {
                let Worker::Working { claims, attempt, token } = world.workers[index] else { return None };
                world.workers[index] = Worker::Idle { claims };
                world.network.insert(Message::Settle { attempt, token, verb });
            }
            Action::Forget(index) => {
                let (Worker::Idle { claims }
                | Worker::Claiming { claims, .. }
                | Worker::Working { claims, .. }) = world.workers[index];
                world.workers[index] = Worker::Idle { claims };
            }
            Action::Deliver(Message::Claim { worker, token }) => Rules::claim(&mut world, worker, token),
            Action::Deliver(Message::Claimed { worker, attempt, token }) => match world.workers[worker] {
                Worker::Claiming { claims, token: asked } if asked == token => {
                    world.workers[worker] = Worker::Working { claims, attempt, token };
                }
                _ => return None,
            },
            Action::Deliver(Message::Settle { attempt, token, verb }) => {
                self.settle(&mut world, attempt, token, verb);
            }
            Action::LeaseEnds | Action::Heartbeat(_) => {
                let Job::Running { token, .. } = world.job else { return None };
                if let Action::Heartbeat(index) = action {
                    let Worker::Working { attempt, token, .. } = world.workers[index] else { return None };
                    if !self.proves(&world, attempt, token) {
                        return None;
                    }
                }
                world.job = Job::Running { token, lease_over: action == Action::LeaseEnds };
            }
            Action::Reap => {
                let Job::Running { token, .. } = world.job else { return None };
                let shown = (world.attempt, token);
                self.end(&mut world, Verb::Expire, shown);
            }
            Action::Forge => {
                let attempt = world.attempt;
                self.settle(&mut world, attempt, FORGED, Verb::Complete);
            }
        }
        (world != *before).then_some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        world.attempt <= ATTEMPTS_SEARCHED
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // ARCHITECTURE.md 4 and 5: the current proof, all of it, or the reaper on an expired lease.
            Property::always("nothing leaves running without its proof", |_, world: &World| {
                world.ends.iter().all(|end| end.shown == (end.attempt, end.token))
            }),
            Property::always("the reaper ends only leases that have ended", |_, world: &World| {
                world.ends.iter().all(|end| end.verb != Verb::Expire || end.lease_over)
            }),
            Property::always(
                "at most one completion is accepted, and nothing after it",
                |_, world: &World| {
                    let complete = world.ends.iter().position(|end| end.verb == Verb::Complete);
                    complete.is_none_or(|index| index + 1 == world.ends.len() && world.job == Job::Succeeded)
                },
            ),
            Property::always("attempts are counted without a gap", |_, world: &World| {
                let in_order =
                    world.ends.iter().enumerate().all(|(n, end)| usize::from(end.attempt) == n + 1);
                let open = u8::from(matches!(world.job, Job::Running { .. }));
                in_order && usize::from(world.attempt) == world.ends.len() + usize::from(open)
            }),
            Property::always("failures are what was to be charged", |_, world: &World| {
                let to_charge = world.ends.iter().filter(|end| matches!(end.verb, Verb::Fail | Verb::Expire));
                usize::from(world.failures) == to_charge.count() && world.failures <= MAX_ATTEMPTS
            }),
            Property::always("the owner is never refused", |_, world: &World| !world.owner_refused),
            Property::sometimes("a late result is refused while another attempt runs", |_, world: &World| {
                world.late_refused
            }),
            Property::sometimes("a second attempt succeeds", |_, world: &World| {
                world.job == Job::Succeeded && world.attempt == 2
            }),
            Property::sometimes("the budget ends in dead", |_, world: &World| world.job == Job::Dead),
            Property::sometimes("a repeat is recognised", |_, world: &World| world.told_already),
        ]
    }
}

/// Whether some reachable state breaks this invariant.
fn breaks(mutation: Mutation, invariant: &'static str) -> bool {
    let enough = HasDiscoveries::AnyOf(BTreeSet::from([invariant]));
    let checker = Rules(mutation).checker().threads(2).finish_when(enough).spawn_bfs().join();
    println!("{mutation:?}: {} states", checker.unique_state_count());
    checker.discovery(invariant).is_some()
}

#[test]
fn every_reachable_state_keeps_the_invariants() {
    let checker = Rules(Mutation::None).checker().threads(2).spawn_bfs().join();
    println!("{} states", checker.unique_state_count());
    checker.assert_properties();
}

#[test]
fn a_proof_without_the_token_is_found() {
    assert!(breaks(Mutation::NoToken, "nothing leaves running without its proof"));
}

#[test]
fn a_proof_without_the_attempt_is_found() {
    assert!(breaks(Mutation::NoAttempt, "nothing leaves running without its proof"));
}

#[test]
fn an_unconditional_reaper_is_found() {
    assert!(breaks(Mutation::ReaperUnconditional, "the reaper ends only leases that have ended"));
}

#[test]
fn an_expiry_that_is_not_charged_is_found() {
    assert!(breaks(Mutation::ExpiryUncharged, "failures are what was to be charged"));
}
