//! When this worker looks at the schedules: in time for the next one that it knows of, and now and then for those that somebody has
//! put since. It refuses to lead: every worker does the same, and the database lets one of them fire (rules K1, K2).

use std::time::{Duration, Instant};

use turno_contract::Result;

use super::backoff::Backoff;
use super::{Control, Input};
use crate::schedules::{Schedules, Ticked};

/// The least time between two looks, unless the first has found something: whoever finds others at work leaves it to them, and a doorbell
/// that rings all the time brings no more than one look a second.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// Many workers know the same instant; they need not come at the same moment.
const SPREAD: Duration = Duration::from_millis(20);

/// When the next tick is; one at a time.
pub(super) struct Ticks {
    in_flight: bool,
    pub(super) next_at: Instant,
    ticked_at: Instant,
    backoff: Backoff,
}

impl Ticks {
    pub(super) fn new(now: Instant, every: Duration) -> Self {
        Ticks { in_flight: false, next_at: now, ticked_at: now, backoff: Backoff::new(every.max(PAUSE_MIN)) }
    }

    /// Somebody may have put a schedule.
    pub(super) fn rang(&mut self, now: Instant) {
        self.next_at = self.next_at.min((self.ticked_at + PAUSE_MIN).max(now));
    }

    pub(super) fn timer(&self) -> Option<Instant> {
        (!self.in_flight).then_some(self.next_at)
    }

    /// Takes in what a tick has found; `every` is the pause without schedules.
    fn ticked(&mut self, ticked: &Ticked, every: Duration, now: Instant) {
        self.in_flight = false;
        self.ticked_at = now;
        self.backoff.reset();
        self.next_at = match ticked {
            // There may be more, and when the next one is, is only known now.
            Ticked { moved: 1.., .. } => now,
            Ticked { already: 1.., .. } => now + PAUSE_MIN,
            Ticked { next_in: Some(next_in), .. } if *next_in < every => {
                now + *next_in + SPREAD.mul_f64(fastrand::f64())
            }
            _ => now + every.mul_f64(0.75 + fastrand::f64() / 4.0),
        };
    }
}

impl Control {
    pub(super) fn send_tick(&mut self, now: Instant) {
        let idle = self.ticks.timer().is_some_and(|at| at <= now);
        if !idle || self.stopping.is_some() || !self.settings.schedules {
            return;
        }
        self.ticks.in_flight = true;
        let schedules = Schedules::new(self.backend.clone());
        self.call(self.call_limit(), async move { schedules.tick().await }, |result| Input::Ticked {
            result,
        });
    }

    pub(super) fn on_ticked(&mut self, result: Result<Ticked>, now: Instant) {
        let every = self.settings.tick_every;
        match result {
            Ok(ticked) => {
                self.ticks.ticked(&ticked, every, now);
                self.counters.schedule_runs.add(ticked.jobs);
                self.counters.schedule_errors.add(ticked.refused.len() as u64);
                for (schedule, error) in &ticked.refused {
                    tracing::error!(schedule, %error, "a schedule cannot be fired, and stays due");
                }
            }
            Err(error) => {
                self.ticks.in_flight = false;
                self.ticks.ticked_at = now;
                self.ticks.next_at = now + self.ticks.backoff.failed(now).max(PAUSE_MIN);
                self.note_error("schedule", &error);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EVERY: Duration = Duration::from_secs(10);

    fn nothing() -> Ticked {
        Ticked { jobs: 0, moved: 0, already: 0, refused: Vec::new(), next_in: None }
    }

    fn pause_after(ticked: &Ticked) -> Duration {
        let now = Instant::now();
        let mut ticks = Ticks::new(now, EVERY);
        ticks.in_flight = true;
        ticks.ticked(ticked, EVERY, now);
        ticks.timer().expect("a timer").saturating_duration_since(now)
    }

    /// Rule K2.
    #[test]
    fn it_comes_in_time_and_rarely_without_schedules() {
        assert_eq!(pause_after(&Ticked { moved: 1, already: 3, ..nothing() }), Duration::ZERO);
        assert_eq!(pause_after(&Ticked { already: 1, ..nothing() }), PAUSE_MIN);
        for _ in 0..50 {
            let idle = pause_after(&nothing());
            assert!((EVERY.mul_f64(0.75)..=EVERY).contains(&idle), "{idle:?}");
            assert!(pause_after(&Ticked { next_in: Some(2 * EVERY), ..nothing() }) <= EVERY);
            let soon = pause_after(&Ticked { next_in: Some(PAUSE_MIN / 2), ..nothing() });
            assert!((PAUSE_MIN / 2..=PAUSE_MIN / 2 + SPREAD).contains(&soon), "{soon:?}");
        }
    }

    #[test]
    fn rings_bring_at_most_one_look_a_second() {
        let now = Instant::now();
        let mut ticks = Ticks::new(now, EVERY);
        ticks.ticked(&nothing(), EVERY, now);
        ticks.rang(now + PAUSE_MIN / 4);
        assert_eq!(ticks.next_at, now + PAUSE_MIN);
        let later = now + 3 * PAUSE_MIN;
        ticks.ticked(&nothing(), EVERY, now);
        ticks.rang(later);
        assert_eq!(ticks.next_at, later);
    }
}
