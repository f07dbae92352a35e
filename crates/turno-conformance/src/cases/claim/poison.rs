//! Rows that plain SQL brought: none of them may make a claim fail, and what could do so is not written.

use turno_contract::{ErrorKind, Retry, State};

use crate::Kit;
use crate::kit::{assert_done, quoted, refused_as};

super::super::cases! {
    Nothing: [
        extreme_numbers_at_the_head_stop_no_claim,
        odd_texts_at_the_head_stop_no_claim,
        the_last_attempt_ends_the_job_whatever_its_budget,
        a_row_is_running_if_and_only_if_it_has_a_token_and_a_lease_end,
        a_state_that_does_not_exist_is_not_written,
    ],
}

/// A job of the highest priority whose row is then changed by SQL, with five good jobs behind it. Insists that either
/// the change was refused, or the good jobs are claimed all the same and the job can be ended.
async fn behind_a_poisoned_head(kit: &Kit, set: &str) {
    let head = kit.enqueue_new(kit.new_job().priority(-1000)).await;
    let good = kit.enqueue_n(5).await;
    // Whether the engine takes the change is its own affair; what matters is what the queue does afterwards.
    drop(kit.update_job(head, set).await);
    let claimed = kit.claim_n(10).await;
    for id in &good {
        assert!(claimed.iter().any(|job| job.proof.job == *id), "{set}: job {id} was not claimed");
    }
    for job in claimed {
        let settled = if job.proof.job == head {
            kit.fail(job.proof, "poisoned", Retry::Policy).await
        } else {
            kit.complete(job.proof).await
        };
        assert_eq!(settled.status, turno_contract::SettledStatus::Done, "{set}: {settled:?}");
    }
    kit.backend().cancel(head, true).await.unwrap();
    kit.forget(head).await;
}

/// Rule C6. B13, B57.
async fn extreme_numbers_at_the_head_stop_no_claim(kit: Kit) {
    for column in
        ["priority", "rank", "attempt", "failures", "max_attempts", "max_run_ms", "unstarted_expiries"]
    {
        for value in
            ["-9223372036854775808", "9223372036854775807", "2147483647", "32767", "255", "-1", "NULL"]
        {
            behind_a_poisoned_head(&kit, &format!("{} = {value}", kit.rig().column(column))).await;
        }
    }
    assert_eq!(kit.count("job", "1 = 1").await, 0, "a poisoned row is left");
}

/// Rules C6, E10.
async fn odd_texts_at_the_head_stop_no_claim(kit: Kit) {
    let long = "x".repeat(100_000);
    for column in ["kind", "payload", "unique_key"] {
        for text in ["", "\n\u{1b}[31m", "{\"a\":", &long, "👩‍👩‍👧"] {
            behind_a_poisoned_head(&kit, &format!("{column} = {}", quoted(text))).await;
        }
    }
}

/// Rules F3, P3. B13: the counter has an end, and it is not an overflow.
async fn the_last_attempt_ends_the_job_whatever_its_budget(kit: Kit) {
    for verb in ["fail", "release"] {
        let id = kit.enqueue_new(kit.new_job().max_attempts(1_000_000)).await;
        kit.update_job(id, "attempt = 999998").await.unwrap();
        for (attempt, state) in [(999_999, State::Scheduled), (1_000_000, State::Dead)] {
            let job = kit.claim_one().await;
            assert_eq!((job.proof.job, job.proof.attempt), (id, attempt));
            if state == State::Scheduled {
                assert_done(
                    &kit.fail(job.proof, "no", Retry::In(std::time::Duration::from_secs(1))).await,
                    state,
                );
                kit.age(std::time::Duration::from_secs(2)).await;
                kit.promote().await;
            } else if verb == "fail" {
                assert_done(&kit.fail(job.proof, "no", Retry::Policy).await, state);
            } else {
                assert_done(&kit.release(job.proof, None).await, state);
            }
        }
        assert_eq!(kit.claim_ids(1).await, vec![]);
        refused_as(kit.backend().retry(id).await, ErrorKind::Conflict);
        assert_eq!(kit.state(id).await, State::Dead, "no attempt is left to retry it with");
        kit.forget(id).await;
    }
}

/// Rule O3.
async fn a_row_is_running_if_and_only_if_it_has_a_token_and_a_lease_end(kit: Kit) {
    let running = kit.running_one().await;
    let ready = kit.enqueue_one().await;
    for set in [
        "token = NULL",
        "lease_until = NULL",
        "state = 'ready'",
        "state = 'scheduled'",
        "token = NULL, lease_until = NULL",
    ] {
        assert!(kit.update_job(running.proof.job, set).await.is_err(), "{set} of a running job was written");
    }
    let sources = ["state = 'running'", "lease_until = run_at", "state = 'running', lease_until = run_at"];
    for set in sources {
        assert!(kit.update_job(ready, set).await.is_err(), "{set} of a ready job was written");
    }
    let table = kit.table("job");
    let token = format!("token = (SELECT token FROM {table} WHERE id = {})", running.proof.job);
    for set in
        [token.clone(), format!("{token}, lease_until = run_at"), format!("{token}, state = 'running'")]
    {
        assert!(kit.update_job(ready, &set).await.is_err(), "{set} of a ready job was written");
    }
    assert!(kit.is_held(running.proof).await);
    assert_eq!(kit.state(ready).await, State::Ready);
}

/// Rule C6.
async fn a_state_that_does_not_exist_is_not_written(kit: Kit) {
    let id = kit.enqueue_one().await;
    for set in
        ["state = 'READY'", "state = ''", "state = 'dead'", "state = NULL", "queue = NULL", "run_at = NULL"]
    {
        assert!(kit.update_job(id, set).await.is_err(), "{set} was written");
    }
    assert_eq!(kit.claim_ids(1).await, vec![id]);
}
