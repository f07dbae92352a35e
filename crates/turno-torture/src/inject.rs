//! Carrying out the plan: one task per step, none of which waits for another. It refuses to repeat a step that found
//! nothing to strike: the report says how often that was.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use tokio::task::JoinSet;
use turno::{Engine, JobFilter, JobId, State};

use crate::plan::{Step, Target, Timed};
use crate::protocol::{Place, Told};
use crate::proxy::{Proxy, Strike, Weather};
use crate::run::{EVERYBODY, Run};
use crate::server::{OwnServer, restart_with};
use crate::slot::{Life, Slot, Standing, end};

/// How long a step waits for the place or the call that it is to strike.
const PATIENCE: Duration = Duration::from_secs(5);

/// What faults are injected into.
pub(crate) struct Field {
    pub(crate) run: Arc<Run>,
    pub(crate) slots: Vec<Arc<Slot>>,
    pub(crate) producers: Option<Proxy>,
    pub(crate) server: Option<OwnServer>,
    pub(crate) restarting: tokio::sync::Mutex<()>,
    pub(crate) holding_row: tokio::sync::Mutex<()>,
}

/// Works off the plan, until it ends or calm is asked for; comes back when every step has ended.
pub(crate) async fn inject(field: Arc<Field>, plan: Vec<Timed>) {
    let began = field.run.active();
    let mut steps = JoinSet::new();
    for Timed { at, step } in plan {
        field.run.wait_until_or_calm(began + at).await;
        if field.run.is_calm() {
            break;
        }
        let field = Arc::clone(&field);
        steps.spawn(async move { field.take(step).await });
        while steps.try_join_next().is_some() {}
    }
    if field.run.is_over() {
        // Nobody is interested any more; what was stopped goes on in the calm.
        steps.abort_all();
    }
    while steps.join_next().await.is_some() {}
}

impl Field {
    async fn take(&self, step: Step) {
        let (fault, place) = (step.fault(), step.place());
        let struck = match step {
            Step::Kill { worker, place } => self.kill(worker, Some(place)).await,
            Step::KillAnywhere { worker } => self.kill(worker, None).await,
            Step::Pause { worker, place, ms } => self.pause(worker, place, ms).await,
            Step::DropReply { target, operation, silent } => {
                self.strike(target, Strike::DropReply { operation, silent }).await
            }
            Step::Cut { target, operation, round_trip } => {
                self.strike(target, Strike::Cut { operation, round_trip }).await
            }
            Step::Restart { down_ms } => self.restart(down_ms).await,
            Step::Terminate { target } => self.terminate(target).await,
            Step::Refuse { target, ms } => self.weather(target, Weather::Refuse, ms).await,
            Step::Slow { target, delay_ms, ms } => {
                self.weather(target, Weather::Slow(Duration::from_millis(delay_ms)), ms).await
            }
            Step::Hole { target, ms } => self.weather(target, Weather::Hole, ms).await,
            Step::HoldComplete { worker, ms } => self.hold_complete(worker, ms).await,
            Step::HoldRow { ms } => self.hold_row(ms).await,
        };
        match struck {
            true => self.run.count_injected(fault, &place),
            false => self.run.count_not_reached(fault, &place),
        }
    }

    /// The slot, or the next one whose process nobody is working on.
    async fn free_slot(
        &self,
        worker: usize,
    ) -> Option<(Arc<Slot>, Arc<Life>, tokio::sync::MutexGuard<'_, ()>)> {
        let began = Instant::now();
        while began.elapsed() < PATIENCE {
            for offset in 0..self.slots.len() {
                let slot = &self.slots[(worker + offset) % self.slots.len()];
                if let Ok(guard) = slot.busy.try_lock()
                    && let Some(life) = slot.life()
                {
                    return Some((Arc::clone(slot), life, guard));
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        None
    }

    /// Waits until the worker stands at the place. During shutdown it first has to be told to shut down.
    async fn stand(&self, life: &Life, place: Place) -> Option<Standing> {
        let standing = life.arm(place).await;
        if place == Place::Shutdown {
            life.doomed.store(true, Ordering::SeqCst);
            self.run.excuse(&life.label, Duration::ZERO, None);
            life.process.terminate();
        }
        match tokio::time::timeout(PATIENCE, standing).await {
            Ok(Ok(standing)) => Some(standing),
            _ => {
                life.disarm().await;
                None
            }
        }
    }

    async fn kill(&self, worker: usize, place: Option<Place>) -> bool {
        let Some((_slot, life, _busy)) = self.free_slot(worker).await else { return false };
        let standing = match place {
            Some(place) => match self.stand(&life, place).await {
                Some(standing) => Some(standing),
                None => return false,
            },
            None => None,
        };
        if let Some(Standing { place, job, attempt }) = standing {
            self.run.note_struck(job, attempt, crate::Fault::Kill, &place.to_string());
        }
        self.run.excuse(&life.label, Duration::ZERO, None);
        life.doomed.store(true, Ordering::SeqCst);
        life.process.kill();
        true
    }

    async fn pause(&self, worker: usize, place: Place, ms: u64) -> bool {
        let Some((_slot, life, _busy)) = self.free_slot(worker).await else { return false };
        let Some(Standing { place, job, attempt }) = self.stand(&life, place).await else { return false };
        let (run, time) = (&self.run, Duration::from_millis(ms));
        run.note_struck(job, attempt, crate::Fault::Pause, &place.to_string());
        run.excuse(&life.label, Duration::ZERO, Some(time + run.options.lease * 2));
        life.process.stop().await;
        // It reads this when it goes on.
        life.process.tell(Told::Go).await;
        tokio::time::sleep(time).await;
        life.process.go_on();
        true
    }

    /// The proxy of a target, and the label that its faults excuse.
    fn target(&self, target: Target) -> Option<(&Proxy, Option<String>)> {
        match target {
            Target::Producers => Some((self.producers.as_ref()?, None)),
            Target::Worker(worker) => {
                let slot = self.slots.get(worker)?;
                Some((slot.proxy.as_ref()?, slot.life().map(|life| life.label.clone())))
            }
        }
    }

    fn excuse(&self, label: Option<&str>, for_: Duration) {
        if let Some(label) = label {
            self.run.excuse(label, self.run.options.lease, Some(for_ + self.run.options.lease * 2));
        }
    }

    async fn strike(&self, target: Target, strike: Strike) -> bool {
        let Some((proxy, _)) = self.target(target) else { return false };
        let _striking = proxy.striking.lock().await;
        if self.run.is_calm() {
            return false;
        }
        let struck = proxy.arm(strike);
        if !matches!(tokio::time::timeout(PATIENCE, struck).await, Ok(Ok(()))) {
            proxy.disarm();
            return false;
        }
        let label = self.target(target).and_then(|(_, label)| label);
        self.excuse(label.as_deref(), PATIENCE);
        true
    }

    async fn weather(&self, target: Target, weather: Weather, ms: u64) -> bool {
        if self.run.database.backend.engine() == Engine::Sqlite {
            return self.lock_file(ms).await;
        }
        let Some((proxy, label)) = self.target(target) else { return false };
        let time = Duration::from_millis(ms);
        self.excuse(label.as_deref(), time);
        proxy.set_weather(weather);
        if weather == Weather::Refuse {
            proxy.break_connections();
        }
        tokio::time::sleep(time).await;
        proxy.set_weather(Weather::Clear);
        // Another process may have come to this slot meanwhile.
        let label = self.target(target).and_then(|(_, label)| label);
        self.excuse(label.as_deref(), Duration::ZERO);
        true
    }

    /// What slowness is to a file: somebody else writes, so nobody can. Short, since it takes heartbeats with it.
    async fn lock_file(&self, ms: u64) -> bool {
        let Ok(held) = self.run.database.hold_row(JobId(0)).await else { return false };
        let time = Duration::from_millis(ms).min(self.run.options.lease / 5);
        tokio::time::sleep(time).await;
        held.release().await.is_ok()
    }

    async fn terminate(&self, target: Target) -> bool {
        let Some((proxy, label)) = self.target(target) else { return false };
        let application = match target {
            Target::Producers => format!("{}-producers", self.run.queue),
            Target::Worker(worker) => Slot::application(&self.run, worker),
        };
        self.excuse(label.as_deref(), Duration::ZERO);
        matches!(self.run.database.terminate(&application, &proxy.sessions()).await, Ok(1..))
    }

    async fn restart(&self, down_ms: u64) -> bool {
        // Each after the other: a node that is not back yet cannot be killed.
        let _restarting = self.restarting.lock().await;
        let (run, down) = (&self.run, Duration::from_millis(down_ms));
        if run.is_calm() {
            return false;
        }
        run.excuse(EVERYBODY, run.options.lease, Some(down + run.options.lease * 2));
        let restarted = match (&self.server, &run.options.restart_with) {
            (Some(server), _) => server.restart(down).await,
            (None, Some(command)) => restart_with(command, down).await,
            (None, None) => return false,
        };
        match restarted {
            Ok(()) => {
                run.excuse(EVERYBODY, run.options.lease, Some(run.options.lease * 3));
                true
            }
            Err(error) => {
                run.violation("restart", format!("the server did not come back: {error}"), Vec::new());
                false
            }
        }
    }

    /// While somebody holds a transaction open, nobody else may lose a lease by it.
    async fn while_holding(&self, ms: u64) {
        *self.run.holding.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        tokio::time::sleep(Duration::from_millis(ms)).await;
        *self.run.holding.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
    }

    async fn hold_complete(&self, worker: usize, ms: u64) -> bool {
        let Some((_slot, life, _busy)) = self.free_slot(worker).await else { return false };
        let Some(Standing { place, job, attempt }) = self.stand(&life, Place::Hold).await else {
            return false;
        };
        self.run.note_struck(job, attempt, crate::Fault::Hold, &place.to_string());
        self.run.model().held.insert((job, attempt));
        self.while_holding(ms).await;
        life.process.tell(Told::Go).await;
        true
    }

    async fn hold_row(&self, ms: u64) -> bool {
        // One at a time: each try is a new session, and a crowd of them would be a fault of its own.
        let _holding = self.holding_row.lock().await;
        let run = &self.run;
        let began = Instant::now();
        while began.elapsed() < PATIENCE && !run.is_calm() {
            let filter = JobFilter {
                state: State::Running,
                queue: Some(run.queue.clone()),
                kind: None,
                before: None,
                limit: 50,
            };
            // The newest have the longest to run.
            let jobs = run.database.backend.jobs(&filter).await.unwrap_or_default();
            let job = jobs.jobs.into_iter().find(|job| job.kind == "slow");
            if let Some(job) = job
                && let Ok(held) = run.database.hold_row(job.id).await
            {
                // The listing may be older than the lock; from here on the attempt stands still.
                let attempt = match run.database.backend.job(job.id).await {
                    Ok(Some(job)) => job.attempt,
                    _ => job.attempt,
                };
                run.model().held.insert((job.id.0, attempt));
                run.note_struck(job.id.0, attempt, crate::Fault::Hold, "a running row");
                self.while_holding(ms).await;
                // The server may have been restarted meanwhile, which ended the transaction as well.
                return held.release().await.is_ok();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        false
    }

    /// Ends every fault: clear weather, nothing armed, nobody stopped.
    pub(crate) fn calm(&self) {
        let proxies = self.slots.iter().filter_map(|slot| slot.proxy.as_ref()).chain(&self.producers);
        for proxy in proxies {
            proxy.disarm();
            proxy.set_weather(Weather::Clear);
        }
        for slot in &self.slots {
            if let Some(life) = slot.life() {
                life.process.go_on();
            }
        }
    }

    /// Asks every worker to end.
    pub(crate) fn end_workers(&self) {
        for slot in &self.slots {
            if let Some(life) = slot.life() {
                end(&life);
            }
        }
    }

    /// Kills what did not end.
    pub(crate) fn kill_workers(&self) -> Vec<String> {
        let lives = self.slots.iter().filter_map(|slot| slot.life());
        lives
            .map(|life| {
                life.process.kill();
                life.label.clone()
            })
            .collect()
    }
}
