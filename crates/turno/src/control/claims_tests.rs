//! Tests of the pace of claims: pure, with a clock of their own.

use turno_contract::{ClaimedJob, JobId, Proof};

use super::*;

const LIMIT: u32 = 10;

struct Rig {
    claims: Claims,
    now: Instant,
}

impl Rig {
    fn new(queues: &[&str]) -> Self {
        let now = Instant::now();
        let settings = Settings {
            queues: queues.iter().map(|queue| (*queue).to_owned()).collect(),
            name: "w".into(),
            ..Settings::for_tests()
        };
        Rig { claims: Claims::new(&settings, now), now }
    }

    fn pass(&mut self, ms: u64) {
        self.now += Duration::from_millis(ms);
    }

    fn claim(&mut self) -> Option<Sent> {
        self.claims.next(self.now, LIMIT, LIMIT)
    }

    /// Claims at the time the pace asks for, and says how long that was.
    fn claim_when_due(&mut self) -> (Sent, Duration) {
        let due = self.claims.timer(true).expect("a claim is due at some time");
        let pause = due.saturating_duration_since(self.now);
        self.now = self.now.max(due);
        if self.claims.next_announcement(self.now) {
            self.claims.announced(self.now, true);
        }
        (self.claim().expect("the timer is when a claim is due"), pause)
    }

    fn answer(&mut self, sent: &Sent, ranks: &[(&str, i64)], next_due_in: Option<Duration>) {
        let jobs = ranks.iter().map(|(queue, rank)| job(queue, *rank)).collect();
        self.claims.answered(sent, &Claimed { jobs, next_due_in }, self.now);
    }

    fn settle_to_sleep(&mut self) {
        for _ in 0..2 {
            let (sent, _) = self.claim_when_due();
            self.answer(&sent, &[], None);
        }
        assert_eq!(self.claims.phase, Phase::Sleeping);
    }
}

fn job(queue: &str, rank: i64) -> ClaimedJob {
    let at = time::OffsetDateTime::UNIX_EPOCH;
    ClaimedJob {
        proof: Proof { job: JobId(rank), attempt: 1, token: Token::random() },
        queue: queue.to_owned(),
        kind: "k".into(),
        payload: "1".into(),
        priority: 0,
        failures: 0,
        max_attempts: 1,
        operation_id: uuid::Uuid::nil(),
        run_at: at,
        created_at: at,
        claimed_at: at,
        lease_until: at,
        max_run: Duration::from_secs(1),
        rank,
        traceparent: None,
    }
}

/// Rule C5: the same token after an error, for one lease; then a new one.
#[test]
fn a_claim_without_an_answer_is_repeated_with_its_token_for_a_lease() {
    let mut rig = Rig::new(&["a", "b"]);
    let first = rig.claim().unwrap();
    assert!(rig.claim().is_none(), "one claim at a time");
    let (began, mut repeats) = (rig.now, 0);
    rig.claims.failed(first.clone(), rig.now);
    loop {
        let (sent, pause) = rig.claim_when_due();
        assert!(pause > Duration::ZERO && pause <= Duration::from_millis(1500));
        if rig.now - began > Duration::from_secs(30) {
            assert_ne!(sent.request.token, first.request.token);
            break;
        }
        assert_eq!(sent.request.token, first.request.token);
        assert_eq!(sent.request.queues, first.request.queues, "a repeat is the same request");
        assert_eq!(sent.first_at, first.first_at);
        repeats += 1;
        rig.claims.failed(sent, rig.now);
    }
    assert!((20..60).contains(&repeats), "bounded by the back-off, and going on: {repeats}");
}

#[test]
fn a_repeat_is_sent_even_without_room() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.claims.failed(sent.clone(), rig.now);
    rig.now = rig.claims.timer(false).expect("the token may hold jobs");
    let repeat = rig.claims.next(rig.now, 0, 0).unwrap();
    assert_eq!(repeat.request.token, sent.request.token);
}

/// Rule W1: announce, look once more, then pause from 20 ms doubling to 1.5 s: less than once a second.
#[test]
fn an_empty_queue_is_announced_looked_at_again_and_then_left_alone() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.answer(&sent, &[], None);
    assert!(rig.claim().is_none(), "first the announcement");
    assert!(rig.claims.next_announcement(rig.now));
    assert!(!rig.claims.next_announcement(rig.now), "once");
    assert!(rig.claim().is_none());
    rig.claims.announced(rig.now, true);
    let sent = rig.claim().expect("one more look at once");
    rig.answer(&sent, &[], None);
    assert!(rig.claims.drained);
    let mut claims = 0;
    let began = rig.now;
    while rig.now - began < Duration::from_secs(60) {
        let (sent, pause) = rig.claim_when_due();
        assert!(pause <= Duration::from_millis(1500));
        rig.answer(&sent, &[], None);
        claims += 1;
    }
    assert!((40..60).contains(&claims), "{claims} claims in an idle minute");
}

/// Known fault B41: the pause follows the next due job only downwards, and never to nothing.
#[test]
fn a_far_job_does_not_lengthen_the_pause_and_a_stuck_one_does_not_spin() {
    let mut rig = Rig::new(&["a"]);
    rig.settle_to_sleep();
    for due_in in [Duration::MAX, Duration::from_secs(1 << 31), Duration::from_secs(3600)] {
        let (sent, _) = rig.claim_when_due();
        rig.answer(&sent, &[], Some(due_in));
        let (sent, pause) = rig.claim_when_due();
        assert!(pause <= Duration::from_millis(1500), "{pause:?}");
        rig.answer(&sent, &[], Some(Duration::from_millis(300)));
        let pause = rig.claims.timer(true).unwrap() - rig.now;
        assert!(pause <= Duration::from_millis(300));
    }
    let began = rig.now;
    let mut claims = 0;
    while rig.now - began < Duration::from_secs(10) {
        let (sent, _) = rig.claim_when_due();
        rig.answer(&sent, &[], Some(Duration::ZERO));
        claims += 1;
    }
    assert!(claims <= 10_000 / 20 + 20, "a job that is due but cannot be had made {claims} claims in 10 s");
}

#[test]
fn a_ring_ends_the_pause_but_a_storm_of_rings_does_not_spin() {
    let mut rig = Rig::new(&["a"]);
    rig.settle_to_sleep();
    rig.pass(1);
    assert!(rig.claims.rang(rig.now));
    let (sent, pause) = rig.claim_when_due();
    assert!(pause <= Duration::from_millis(20), "{pause:?}");
    rig.answer(&sent, &[], None);
    let (began, mut claims) = (rig.now, 0);
    while rig.now - began < Duration::from_secs(10) {
        rig.claims.rang(rig.now);
        let (sent, _) = rig.claim_when_due();
        rig.answer(&sent, &[], None);
        claims += 1;
    }
    assert!(claims <= 2 * 10_000 / 20 + 20, "rings for others made {claims} claims in 10 s");
}

/// Rule W2: what the doorbell is for.
#[test]
fn a_ring_in_the_middle_of_a_sleep_leads_to_a_claim_at_once() {
    let mut rig = Rig::new(&["a"]);
    rig.settle_to_sleep();
    rig.pass(25);
    assert!(rig.claims.rang(rig.now));
    let (_, pause) = rig.claim_when_due();
    assert_eq!(pause, Duration::ZERO);
}

#[test]
fn a_ring_while_a_claim_is_on_its_way_is_not_lost() {
    let mut rig = Rig::new(&["a"]);
    rig.settle_to_sleep();
    let (sent, _) = rig.claim_when_due();
    rig.claims.rang(rig.now);
    rig.answer(&sent, &[], None);
    assert_eq!(rig.claims.phase, Phase::Busy, "it looks again before it sleeps");
    let mut fresh = Rig::new(&["a"]);
    let (sent, _) = fresh.claim_when_due();
    fresh.answer(&sent, &[], None);
    let (sent, _) = fresh.claim_when_due();
    assert_eq!(fresh.claims.phase, Phase::Confirm);
    fresh.claims.rang(fresh.now);
    fresh.answer(&sent, &[], None);
    assert_eq!(fresh.claims.phase, Phase::Busy, "not even in the last look before the sleep");
}

#[test]
fn a_full_claim_is_followed_by_the_next_at_once() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.answer(&sent, &[("a", 1); LIMIT as usize], None);
    let (_, pause) = rig.claim_when_due();
    assert_eq!(pause, Duration::ZERO);
}

#[test]
fn queues_take_turns_at_being_first() {
    let mut rig = Rig::new(&["a", "b", "c"]);
    let mut firsts = Vec::new();
    for _ in 0..4 {
        let (sent, _) = rig.claim_when_due();
        firsts.push(sent.request.queues[0].clone());
        assert_eq!(sent.request.queues.len(), 3);
        rig.answer(&sent, &[("a", 1); LIMIT as usize], None);
    }
    assert_eq!(firsts, ["a", "b", "c", "a"]);
}

/// Rule C8: hints stand at the right queue whatever the rotation, and a sweep from the front comes in time.
#[test]
fn hints_follow_their_queue_and_sweeps_come_often_enough() {
    let mut rig = Rig::new(&["a", "b"]);
    let sent = rig.claim().unwrap();
    assert!(sent.request.is_sweep(), "the first one looks at everything");
    // The sweep took long, so that the next ones use the hints.
    rig.pass(1000);
    let ranks: Vec<(&str, i64)> = (0..LIMIT as i64).map(|i| (["a", "b"][i as usize % 2], 100 + i)).collect();
    rig.answer(&sent, &ranks, None);
    let mut swept_at = rig.now;
    let (mut hinted, mut sweeps) = (0, 0);
    for _ in 0..600 {
        let (sent, _) = rig.claim_when_due();
        if sent.request.is_sweep() {
            assert!(rig.now - swept_at <= SWEEP_EVERY + Duration::from_millis(100));
            sweeps += 1;
            rig.pass(1000);
            swept_at = rig.now;
        } else {
            hinted += 1;
            for (queue, hint) in sent.request.queues.iter().zip(&sent.request.from_ranks) {
                assert_eq!(*hint, Some(if queue == "a" { 108 } else { 109 }));
            }
            rig.pass(50);
        }
        rig.answer(&sent, &ranks, None);
    }
    assert!(hinted > 500 && sweeps > 1, "{hinted} hinted, {sweeps} sweeps");
}

/// Rule C8: what lies before the hints is looked at as soon as a sweep is due again, and no sleep lasts longer.
#[test]
fn a_short_answer_behind_the_hints_leads_to_a_sweep_when_one_is_due() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.pass(1000);
    rig.answer(&sent, &[("a", 7); LIMIT as usize], None);
    let swept_at = rig.now;
    rig.settle_to_sleep();
    assert!(!rig.claims.drained, "nobody has looked before the hints");
    while let (sent, _) = rig.claim_when_due()
        && !sent.request.is_sweep()
    {
        rig.answer(&sent, &[], None);
    }
    let since = rig.now - swept_at;
    assert!(since >= Duration::from_millis(9900) && since <= SWEEP_EVERY, "{since:?}");
}

#[test]
fn a_short_answer_behind_the_hints_leads_to_a_sweep_at_once_where_that_is_cheap() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.pass(2);
    rig.answer(&sent, &[("a", 7); LIMIT as usize], None);
    let (sent, _) = rig.claim_when_due();
    assert!(!sent.request.is_sweep());
    rig.pass(30);
    rig.answer(&sent, &[], None);
    let (sent, pause) = rig.claim_when_due();
    assert!(sent.request.is_sweep() && pause == Duration::ZERO);
}

/// A sweep that was dear and found nothing is not made again at the next ring.
#[test]
fn a_queue_that_gave_nothing_keeps_its_hint() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.answer(&sent, &[("a", 7)], None);
    rig.pass(1000);
    let (sent, _) = rig.claim_when_due();
    assert!(sent.request.is_sweep());
    rig.pass(500);
    rig.answer(&sent, &[], None);
    rig.settle_to_sleep();
    rig.claims.rang(rig.now);
    let (sent, _) = rig.claim_when_due();
    assert_eq!(sent.request.from_ranks, [Some(7)]);
}

/// What rang may lie before the hint, where the sweep had looked already.
#[test]
fn a_ring_in_the_middle_of_a_dear_sweep_leaves_a_worker_that_is_not_drained() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    rig.answer(&sent, &[("a", 7)], None);
    rig.pass(1000);
    let (sent, _) = rig.claim_when_due();
    assert!(sent.request.is_sweep());
    rig.claims.rang(rig.now);
    rig.pass(500);
    rig.answer(&sent, &[], None);
    let (sent, _) = rig.claim_when_due();
    assert!(!sent.request.is_sweep());
    rig.answer(&sent, &[], None);
    rig.settle_to_sleep();
    assert!(!rig.claims.drained);
}

#[test]
fn errors_that_last_longer_than_a_lease_are_told_apart() {
    let mut rig = Rig::new(&["a"]);
    let sent = rig.claim().unwrap();
    assert!(!rig.claims.failed(sent.clone(), rig.now));
    rig.pass(31_000);
    assert!(rig.claims.failed(sent.clone(), rig.now));
    let (sent, _) = rig.claim_when_due();
    rig.answer(&sent, &[], None);
    let (sent, _) = rig.claim_when_due();
    assert!(!rig.claims.failed(sent, rig.now), "a success in between counts");
}
