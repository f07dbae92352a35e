//! What the rows say: whether somebody works, what nobody can handle, what is out of reach. It refuses to be surer than the
//! rows are: no table knows the workers, so that somebody is alive shows only in what was claimed and ended.

use std::time::Duration;

use time::OffsetDateTime;

use super::{Check, DoctorOptions, named, show};
use crate::{DueSchedules, Finding, QueueSettings, QueueStats, Unhandled};

/// Whether due jobs wait in queues that nobody seems to serve, by what happened within the window of these statistics.
pub fn workers(stats: &[QueueStats], window: Duration, options: &DoctorOptions) -> Check {
    let waits = |stats: &&QueueStats| {
        !stats.paused && stats.oldest_due_age.is_some_and(|age| age >= options.long_wait)
    };
    let is_served = |stats: &&QueueStats| {
        stats.running.n > stats.expired.n
            || stats.succeeded.n + stats.retries.n > 0
            || stats.start_p50.is_some()
    };
    let mut waiting: Vec<&QueueStats> = stats.iter().filter(waits).collect();
    waiting.sort_by_key(|stats| std::cmp::Reverse(stats.oldest_due_age));
    let (served, unserved): (Vec<&QueueStats>, Vec<&QueueStats>) = waiting.into_iter().partition(is_served);
    let shown = |queues: &[&QueueStats]| {
        let text = |stats: &&QueueStats| {
            let more = if stats.ready.capped { "+" } else { "" };
            let age = show(stats.oldest_due_age.unwrap_or_default());
            format!("{} ({}{more} ready, the oldest due for {age})", stats.queue, stats.ready.n)
        };
        named(&queues.iter().map(text).collect::<Vec<_>>())
    };
    if !unserved.is_empty() {
        let found = format!(
            "due jobs wait and nothing shows a worker in the last {}: {}",
            show(window),
            shown(&unserved)
        );
        let action = "start workers for these queues (turno work --queue ...), or see why theirs do not reach the database; \
                      pause the queue if it is meant to wait";
        return Check::critical("workers", found, action);
    }
    if !served.is_empty() {
        let found = format!("workers are there and due jobs wait long: {}", shown(&served));
        let action = "more workers or a higher concurrency, or see in `turno stats` whether jobs became slow";
        return Check::warning("workers", found, action);
    }
    Check::ok("workers", format!("no due job waits for longer than {}", show(options.long_wait)))
}

/// Whether leases have ended that nobody reaps.
pub fn leases(stats: &[QueueStats]) -> Check {
    let expired = stats.iter().filter(|stats| stats.expired.n > 0);
    let names: Vec<String> = expired.map(|stats| format!("{} ({})", stats.queue, stats.expired.n)).collect();
    if names.is_empty() {
        return Check::ok("leases", "no lease has ended unnoticed");
    }
    let found = format!("leases have ended and are not reaped: {}", named(&names));
    let action = "look again after a minute: a worker of any queue reaps within one. If they stay, no worker is alive; \
                  start one, or call `turno reap`";
    Check::warning("leases", found, action)
}

/// Whether schedules have been due for as long as a job may wait, and nobody fired them.
pub fn schedules(due: &DueSchedules, options: &DoctorOptions) -> Check {
    let late = |next_at| Duration::try_from(due.now - next_at).unwrap_or_default();
    let names: Vec<String> = due
        .schedules
        .iter()
        .filter(|schedule| late(schedule.next_at) >= options.long_wait)
        .map(|schedule| format!("{} (for {})", schedule.name, show(late(schedule.next_at))))
        .collect();
    if names.is_empty() {
        return Check::ok("schedules", format!("no schedule has been due for {}", show(options.long_wait)));
    }
    let found = format!("schedules are due and nobody fires them: {}", named(&names));
    let action = "start a worker, of whatever queue: each fires what is due. If one runs, its log says why it cannot: a limit of the queue, \
                  or an expression or a zone that it does not know; mend it, or `turno schedule pause` it";
    Check::warning("schedules", found, action)
}

/// Whether queues have been paused for long while jobs wait in them.
pub fn paused(
    stats: &[QueueStats],
    settings: &[QueueSettings],
    now: OffsetDateTime,
    options: &DoctorOptions,
) -> Check {
    let mut names = Vec::new();
    for settings in settings {
        let (Some(queue), Some(since)) = (&settings.queue, settings.paused_at) else { continue };
        let pause: Duration = (now - since).try_into().unwrap_or_default();
        let waiting = stats.iter().find(|stats| stats.queue == *queue).map_or(0, |stats| stats.ready.n);
        if pause >= options.long_pause && waiting > 0 {
            names.push(format!("{queue} (for {}, {waiting} ready)", show(pause)));
        }
    }
    if names.is_empty() {
        return Check::ok("paused", "no queue with waiting jobs has been paused for long");
    }
    let found = format!("paused for long while jobs wait: {}", named(&names));
    Check::warning("paused", found, "turno queue resume QUEUE, or cancel what is not wanted any more")
}

/// Whether workers give jobs of some kinds back again and again and never complete one.
pub fn kinds(unhandled: &[Unhandled]) -> Check {
    let text = |u: &Unhandled| {
        let more = if u.jobs.capped { "+" } else { "" };
        format!("{:?} in queue {:?} ({}{more} jobs, such as {})", u.kind, u.queue, u.jobs.n, u.example)
    };
    let names: Vec<String> = unhandled.iter().map(text).collect();
    if names.is_empty() {
        return Check::ok("kinds", "no kind is given back again and again");
    }
    let found =
        format!("given back three times in a row or more, and none succeeded lately: {}", named(&names));
    let action = "deploy a worker that has a handler for the kind, or move these jobs to the queue whose workers have \
                  one; cancel what was enqueued by mistake. A handler that only ever puts its job off looks the same";
    Check::warning("kinds", found, action)
}

/// What the audit found.
pub fn audit(findings: &[Finding]) -> Check {
    let text = |f: &Finding| {
        let example = f.example.map_or_else(String::new, |job| format!(", such as job {job}"));
        format!("{} ({} rows{example}: {})", f.check, f.rows, f.meaning)
    };
    let names: Vec<String> = findings.iter().map(text).collect();
    if names.is_empty() {
        return Check::ok("audit", "every row is within reach of a rule");
    }
    let action =
        "a row was changed by hand, or this is a fault of turno: keep a copy of the rows, and report it";
    Check::critical("audit", named(&names), action)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Count;
    use crate::doctor::CheckStatus;

    fn stats(queue: &str, due_s: u64) -> QueueStats {
        let none = Count { n: 0, capped: false };
        QueueStats {
            queue: queue.into(),
            paused: false,
            oldest_due_age: Some(Duration::from_secs(due_s)),
            ready: Count { n: 3, capped: false },
            scheduled: none,
            running: none,
            expired: none,
            succeeded: none,
            dead: none,
            cancelled: none,
            retries: none,
            refused: none,
            start_p50: None,
            start_p99: None,
            finish_p50: None,
            finish_p99: None,
        }
    }

    const WINDOW: Duration = Duration::from_secs(300);

    #[test]
    fn a_queue_with_due_jobs_and_no_sign_of_a_worker_is_critical() {
        let check = workers(&[stats("mail", 3600)], WINDOW, &DoctorOptions::default());
        assert_eq!(check.status, CheckStatus::Critical);
        assert!(check.found.contains("mail (3 ready"), "{}", check.found);
    }

    #[test]
    fn a_live_lease_or_a_recent_end_is_a_sign_of_a_worker() {
        let (mut leased, mut ended, mut lost) = (stats("a", 90), stats("b", 90), stats("c", 90));
        leased.running.n = 1;
        ended.succeeded.n = 1;
        (lost.running.n, lost.expired.n) = (1, 1);
        assert_eq!(workers(&[leased, ended], WINDOW, &DoctorOptions::default()).status, CheckStatus::Warning);
        assert_eq!(workers(&[lost.clone()], WINDOW, &DoctorOptions::default()).status, CheckStatus::Critical);
        assert_eq!(leases(&[lost]).status, CheckStatus::Warning);
    }

    #[test]
    fn a_job_that_became_due_just_now_and_a_paused_queue_wait_for_nobody() {
        let mut held = stats("held", 3600);
        held.paused = true;
        assert_eq!(
            workers(&[stats("new", 5), held], WINDOW, &DoctorOptions::default()).status,
            CheckStatus::Ok
        );
    }
}
