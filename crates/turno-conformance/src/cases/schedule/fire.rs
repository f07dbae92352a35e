//! Firing: instants become jobs, each at most once.

use std::time::Duration;

use turno_contract::{ErrorKind, Fired, Firing, Schedule, SettingsChange, State};

use super::{HOUR, MINUTE, created, due, fired, firing, record, schedule};
use crate::Kit;
use crate::kit::{KIND, refused_as, within};

super::super::cases! {
    Nothing: [
        an_instant_becomes_one_job_however_many_fire,
        tickers_side_by_side_make_one_job_an_instant,
        a_fire_moves_the_schedule_on,
        a_job_is_what_the_schedule_says,
        every_instant_stands_in_its_own_payload,
        with_a_unique_key_one_job_is_unfinished,
        what_was_seen_must_still_be_so,
        a_fire_beside_a_removal_agrees_with_it,
        instants_that_cannot_be_are_refused,
        a_job_that_the_queue_refuses_moves_nothing,
        an_instant_is_remembered_when_its_schedule_is_not,
        a_hundred_instants_fit_into_one_fire,
    ],
    Alone: [the_records_of_instants_are_kept_for_seven_days],
}

async fn jobs(kit: &Kit) -> i64 {
    kit.count("job", "1 = 1").await
}

/// Rule K1, B44.
async fn an_instant_becomes_one_job_however_many_fire(kit: Kit) {
    for round in 1..=5 {
        if round == 1 {
            created(&kit, &schedule(&kit), HOUR).await;
        }
        let seen = record(&kit, kit.queue()).await;
        let mut firing = firing(&kit, &seen, &[]).await;
        firing.instants = vec![firing.until];
        let tickers: Vec<_> = (0..8)
            .map(|_| {
                let (backend, firing) = (kit.backend_shared(), firing.clone());
                tokio::spawn(async move { backend.schedule_fire(&firing).await })
            })
            .collect();
        let mut made = 0;
        for ticker in tickers {
            if let Fired::Done(jobs) = within("a ticker", ticker).await.unwrap().expect("a fire") {
                made += jobs.len();
            }
        }
        assert_eq!((made, jobs(&kit).await), (1, round));
        kit.age(MINUTE).await;
    }
}

/// Rules K1, K2: whole ticks, each looking and firing by itself, over and over.
async fn tickers_side_by_side_make_one_job_an_instant(kit: Kit) {
    created(&kit, &schedule(&kit), 30 * HOUR).await;
    let tickers: Vec<_> = (0..4)
        .map(|_| {
            let kit = kit.clone();
            tokio::spawn(async move {
                // Each tick deals with one hour, until the schedule has caught up.
                while let (Some(seen), now) = due(&kit, kit.queue()).await {
                    let next = seen.done_until + HOUR;
                    let firing = Firing {
                        name: seen.name,
                        revision: seen.revision,
                        until: next.min(now),
                        instants: if next <= now { vec![next] } else { vec![] },
                        next_at: Some(next.max(now + Duration::from_secs(1)).min(next + HOUR))
                            .filter(|at| *at > next.min(now)),
                    };
                    kit.backend().schedule_fire(&firing).await.expect("a fire");
                }
            })
        })
        .collect();
    for ticker in tickers {
        within("a ticker", ticker).await.unwrap();
    }
    assert_eq!(jobs(&kit).await, 30);
}

/// Rule K5.
async fn a_fire_moves_the_schedule_on(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let wanted = firing(&kit, &seen, &[60, 120]).await;
    let Fired::Done(made) = kit.backend().schedule_fire(&wanted).await.unwrap() else { panic!("not fired") };
    assert_eq!(made.len(), 2);
    let after = record(&kit, kit.queue()).await;
    assert_eq!(
        (after.revision, after.done_until, after.next_at),
        (seen.revision + 1, wanted.until, wanted.next_at)
    );
    assert_eq!((after.last_at, after.last_job), (Some(wanted.instants[1]), Some(made[1])));
    assert_eq!(kit.claim_ids(10).await, made, "due now, in the order of their instants");
    // Without instants it only moves on.
    kit.age(MINUTE).await;
    let aged = record(&kit, kit.queue()).await;
    assert_eq!(fired(&kit, &firing(&kit, &aged, &[]).await).await, 0);
    let moved = record(&kit, kit.queue()).await;
    assert_eq!((moved.last_at, moved.last_job), (aged.last_at, aged.last_job));
}

/// Rules K5, E2.
async fn a_job_is_what_the_schedule_says(kit: Kit) {
    let mut wanted = schedule(&kit).payload(r#"{"a": [1, "😀"]}"#);
    wanted.priority = -7;
    wanted.max_attempts = Some(3);
    wanted.max_run = Some(MINUTE);
    wanted.unique_key = Some("one".into());
    let seen = created(&kit, &wanted, HOUR).await;
    assert_eq!(fired(&kit, &firing(&kit, &seen, &[60]).await).await, 1);
    let claimed = kit.claim_one().await;
    assert_eq!((claimed.kind.as_str(), claimed.payload.as_str()), (KIND, r#"{"a": [1, "😀"]}"#));
    assert_eq!((claimed.priority, claimed.max_attempts, claimed.max_run), (-7, 3, MINUTE));
    let job = kit.job(claimed.proof.job).await;
    assert_eq!(job.unique_key.as_deref(), Some("one"));
    // The defaults are the queue's, as for any other job.
    let plain = kit.beside("plain");
    plain.set(SettingsChange { max_attempts: Some(9), ..Default::default() }).await;
    let seen = created(&plain, &schedule(&plain), HOUR).await;
    assert_eq!(fired(&plain, &firing(&plain, &seen, &[60]).await).await, 1);
    let claimed = plain.claim_one().await;
    assert_eq!((claimed.priority, claimed.max_attempts, claimed.payload.as_str()), (0, 9, "null"));
}

/// Rule K6.
async fn every_instant_stands_in_its_own_payload(kit: Kit) {
    let seen = created(&kit, &schedule(&kit).payload(r#"["{instant}", "{instant}", "{other}"]"#), HOUR).await;
    let mut wanted = firing(&kit, &seen, &[]).await;
    let whole = wanted.until.replace_nanosecond(0).unwrap();
    wanted.instants = vec![whole - 2 * MINUTE, whole - MINUTE];
    assert_eq!(fired(&kit, &wanted).await, 2);
    for at in wanted.instants {
        let (date, time) = (at.date(), at.time());
        let (hour, minute, second) = time.as_hms();
        let text = format!("{date}T{hour:02}:{minute:02}:{second:02}Z");
        let expected = format!(r#"["{text}", "{text}", "{{other}}"]"#);
        assert_eq!(kit.claim_one().await.payload, expected);
    }
}

/// Rules K5, E5.
async fn with_a_unique_key_one_job_is_unfinished(kit: Kit) {
    let wanted = Schedule { unique_key: Some("one".into()), ..schedule(&kit) };
    let seen = created(&kit, &wanted, HOUR).await;
    let Fired::Done(made) =
        kit.backend().schedule_fire(&firing(&kit, &seen, &[60, 120]).await).await.unwrap()
    else {
        panic!("not fired")
    };
    assert_eq!(made[0], made[1], "the second instant finds the job of the first");
    assert_eq!(jobs(&kit).await, 1);
    let claimed = kit.claim_one().await;
    assert_eq!(kit.complete(claimed.proof).await.state, Some(State::Succeeded));
    kit.age(MINUTE).await;
    let seen = record(&kit, kit.queue()).await;
    assert_eq!(fired(&kit, &firing(&kit, &seen, &[1]).await).await, 1);
    assert_eq!(jobs(&kit).await, 1);
}

/// Rules K1, K3, K8.
async fn what_was_seen_must_still_be_so(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let stale = firing(&kit, &seen, &[60]).await;
    kit.backend().schedule_put(&schedule(&kit).payload("1")).await.unwrap();
    assert_eq!(kit.backend().schedule_fire(&stale).await.unwrap(), Fired::Already);
    for revision in [0, -1, i64::MAX] {
        let foreign = Firing { revision, ..stale.clone() };
        assert_eq!(kit.backend().schedule_fire(&foreign).await.unwrap(), Fired::Already);
    }
    let nobody = Firing { name: format!("{}/nobody", kit.queue()), ..stale.clone() };
    assert_eq!(kit.backend().schedule_fire(&nobody).await.unwrap(), Fired::Already);
    kit.backend().schedule_remove(kit.queue()).await.unwrap();
    assert_eq!(kit.backend().schedule_fire(&stale).await.unwrap(), Fired::Already);
    assert_eq!(jobs(&kit).await, 0);
}

/// Rule K1.
async fn a_fire_beside_a_removal_agrees_with_it(kit: Kit) {
    for round in 0..5 {
        let kit = kit.beside(&format!("round {round}"));
        let seen = created(&kit, &schedule(&kit), HOUR).await;
        let wanted = firing(&kit, &seen, &[60]).await;
        let (backend, name) = (kit.backend_shared(), kit.queue().to_owned());
        let removal = tokio::spawn(async move { backend.schedule_remove(&name).await });
        let answer = kit.backend().schedule_fire(&wanted).await.expect("a fire");
        within("a removal", removal).await.unwrap().expect("removed");
        let made = if let Fired::Done(jobs) = answer { jobs.len() as i64 } else { 0 };
        assert_eq!(jobs(&kit).await, made);
    }
}

/// Rule K2: no caller's clock makes an instant come.
async fn instants_that_cannot_be_are_refused(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let good = firing(&kit, &seen, &[60]).await;
    let ahead = good.until + MINUTE;
    let bad = [
        Firing { until: ahead, next_at: Some(ahead + MINUTE), ..good.clone() },
        Firing { instants: vec![ahead], ..good.clone() },
        Firing { instants: vec![seen.done_until], ..good.clone() },
        Firing { instants: vec![seen.done_until - MINUTE], ..good.clone() },
        Firing { until: seen.done_until - MINUTE, instants: vec![], ..good.clone() },
        Firing { next_at: Some(good.until), ..good.clone() },
        Firing {
            instants: (1..=101).map(|n| seen.done_until + Duration::from_secs(n)).collect(),
            ..good.clone()
        },
    ];
    for firing in bad {
        // An error may be told before its transaction has let go of the row.
        let answer = within("an answer", async {
            loop {
                match kit.backend().schedule_fire(&firing).await {
                    Ok(Fired::Already) => tokio::task::yield_now().await,
                    answer => return answer,
                }
            }
        });
        refused_as(answer.await, ErrorKind::InvalidArgument);
    }
    assert_eq!(record(&kit, kit.queue()).await, seen);
    assert_eq!(jobs(&kit).await, 0);
    let answer = within("a fire", async {
        while kit.backend().schedule_fire(&good).await.expect("a fire") == Fired::Already {
            tokio::task::yield_now().await;
        }
    });
    answer.await;
    assert_eq!(jobs(&kit).await, 1);
}

/// Rules E11, K5.
async fn a_job_that_the_queue_refuses_moves_nothing(kit: Kit) {
    let seen = created(&kit, &Schedule { max_attempts: Some(9), ..schedule(&kit) }, HOUR).await;
    let limited = SettingsChange { max_attempts: Some(2), max_attempts_limit: Some(2), ..Default::default() };
    kit.set(limited).await;
    let wanted = firing(&kit, &seen, &[60]).await;
    refused_as(kit.backend().schedule_fire(&wanted).await, ErrorKind::InvalidArgument);
    assert_eq!(record(&kit, kit.queue()).await, seen, "it stays due, and is seen to be late");
    assert_eq!(jobs(&kit).await, 0);
}

/// Rule K1: also if the clock went back, or the schedule was put anew.
async fn an_instant_is_remembered_when_its_schedule_is_not(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let first = firing(&kit, &seen, &[60]).await;
    assert_eq!(fired(&kit, &first).await, 1);
    kit.backend().schedule_remove(kit.queue()).await.unwrap();
    let again = created(&kit, &schedule(&kit), 2 * HOUR).await;
    assert!(again.done_until < first.instants[0]);
    let second = Firing {
        instants: vec![first.instants[0], first.instants[0] + Duration::from_secs(1)],
        ..firing(&kit, &again, &[]).await
    };
    assert_eq!(fired(&kit, &second).await, 1, "only the instant that has no job yet");
    assert_eq!(jobs(&kit).await, 2);
}

/// Rule K4.
async fn a_hundred_instants_fit_into_one_fire(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    let seconds: Vec<u64> = (1..=100).collect();
    assert_eq!(fired(&kit, &firing(&kit, &seen, &seconds).await).await, 100);
    assert_eq!(jobs(&kit).await, 100);
}

/// Rule K5.
async fn the_records_of_instants_are_kept_for_seven_days(kit: Kit) {
    let seen = created(&kit, &schedule(&kit), HOUR).await;
    assert_eq!(fired(&kit, &firing(&kit, &seen, &[60, 120, 180]).await).await, 3);
    let day = 24 * HOUR;
    let runs = || async {
        let (table, name) = (kit.table("schedule_run"), crate::kit::quoted(kit.queue()));
        kit.rig().scalar(&format!("SELECT count(*) FROM {table} WHERE schedule = {name}")).await
    };
    kit.age(7 * day - HOUR).await;
    while kit.backend().prune(1000).await.unwrap().schedule_runs > 0 {}
    assert_eq!(runs().await, Some(3));
    kit.age(2 * HOUR).await;
    assert!(kit.backend().prune(2).await.unwrap().schedule_runs <= 2, "a batch is bounded");
    while kit.backend().prune(1000).await.unwrap().schedule_runs > 0 {}
    assert_eq!(runs().await, Some(0));
}
