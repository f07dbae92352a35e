//! What goes in comes back as the same bytes, on every path out.

use turno_contract::{Backend, ClaimRequest, ErrorKind, JobFilter, NewJob, State};

use crate::Kit;
use crate::kit::{KIND, WORKER, refused_as};

super::super::cases! {
    Nothing: [
        the_payload_comes_back_as_the_same_text,
        names_and_keys_come_back_as_the_same_bytes,
        names_that_look_alike_are_different_queues,
        keys_that_look_alike_are_different_keys,
        names_are_data_in_every_operation,
        names_outside_the_rule_are_refused_everywhere,
        keys_outside_the_rule_are_refused,
        a_payload_longer_than_a_notification_is_enqueued_while_somebody_waits,
    ],
}

/// Texts that some layer of some other queue has changed.
const PAYLOADS: &[&str] = &[
    "null",
    "1",
    "\"\"",
    " {\"a\" : 1 , \"a\": 2}\n",
    r#"{"z":1,"a":2,"m":{"y":1,"b":2}}"#,
    r#"{"id":9007199254740993,"n":1970670598291982290,"d":0.1,"e":1e400,"k":1.0,"x":-0}"#,
    r#"["\u0000",{"\u0000":"\\u0000"}]"#,
    "\"👩‍👩‍👧‍👦 e\u{301} \u{10ffff} שלום\"",
    r#""\ud83d\ude00 \ud800""#,
    r#"{"quote":"O'Brien \\ \" %s $1 ?","tab":"\t"}"#,
];

/// Rule E8. B20, B22, B23.
async fn the_payload_comes_back_as_the_same_text(kit: Kit) {
    let jobs: Vec<NewJob> = PAYLOADS.iter().map(|payload| NewJob::new(kit.queue(), KIND, *payload)).collect();
    for job in &jobs {
        kit.enqueue_new(job.clone()).await;
    }
    kit.backend().enqueue(&jobs).await.unwrap();
    let mut transaction = kit.begin().await;
    for job in &jobs {
        transaction.enqueue(job).await.unwrap();
    }
    transaction.commit().await.unwrap();

    let claimed = kit.claim_n(1000).await;
    assert_eq!(claimed.len(), 3 * PAYLOADS.len());
    for (job, payload) in claimed.iter().zip(PAYLOADS.iter().cycle()) {
        assert_eq!(&job.payload, payload);
        assert_eq!(kit.job(job.proof.job).await.payload.as_deref(), Some(*payload));
        kit.complete_with(job.proof, Some(payload)).await;
    }
    let filter = JobFilter {
        state: State::Succeeded,
        queue: Some(kit.queue().to_owned()),
        kind: None,
        before: None,
        limit: 1000,
    };
    let listed = kit.backend().jobs(&filter).await.unwrap().jobs;
    assert_eq!(listed.len(), claimed.len());
    for (job, payload) in listed.iter().rev().zip(PAYLOADS.iter().cycle()) {
        assert_eq!((job.payload.as_deref(), job.result.as_deref()), (Some(*payload), Some(*payload)));
    }
}

/// Rule E8. B22.
async fn names_and_keys_come_back_as_the_same_bytes(kit: Kit) {
    for name in ["👩‍👩‍👧 e\u{301} \u{10ffff}", "  two spaces  ", "O'Brien \"x\" \\ %_"] {
        let kit = kit.beside(name);
        let id =
            kit.enqueue_new(NewJob::new(kit.queue(), name, "1").unique_key(name).idempotency_key(name)).await;
        let mut request = kit.request(1);
        request.worker = name.to_owned();
        let claimed = kit.claim_with(&request).await;
        assert_eq!((claimed[0].queue.as_str(), claimed[0].kind.as_str()), (kit.queue(), name));
        let job = kit.job(id).await;
        assert_eq!((job.queue.as_str(), job.kind.as_str()), (kit.queue(), name));
        assert_eq!((job.unique_key.as_deref(), job.worker.as_deref()), (Some(name), Some(name)));
    }
    let longest = kit.beside("long");
    let queue = format!("{}{}", longest.queue(), "é".repeat((199 - longest.queue().len()) / 2));
    let key = "k".repeat(512);
    let job = NewJob::new(&queue, "k".repeat(200), "1").unique_key(&key).idempotency_key(&key);
    let id = kit.enqueue_new(job.clone()).await;
    let record = kit.job(id).await;
    assert_eq!((record.queue, record.kind, record.unique_key), (queue, "k".repeat(200), Some(key)));
    assert_eq!(kit.enqueue(job).await.id, id);
}

const ALIKE: &[&str] = &["a", "a ", " a", "A", "á", "a\u{301}", "ａ", "a\u{200b}", "ä", "ß", "ss"];

/// Rule E8.
async fn names_that_look_alike_are_different_queues(kit: Kit) {
    let mut ids = Vec::new();
    for name in ALIKE {
        ids.push(kit.beside(name).enqueue_one().await);
    }
    for (name, id) in ALIKE.iter().zip(ids) {
        assert_eq!(kit.beside(name).claim_ids(10).await, vec![id], "queue {name:?}");
    }
}

/// Rule E8. B22.
async fn keys_that_look_alike_are_different_keys(kit: Kit) {
    for key in ALIKE {
        assert!(kit.enqueue(kit.new_job().unique_key(*key)).await.created, "unique key {key:?}");
        assert!(kit.enqueue(kit.new_job().idempotency_key(*key)).await.created, "idempotency key {key:?}");
    }
    let jobs: Vec<NewJob> = ALIKE.iter().map(|key| kit.new_job().unique_key(*key)).collect();
    let again = kit.backend().enqueue(&jobs).await.unwrap();
    let distinct: std::collections::HashSet<_> = again.iter().map(|answer| answer.id).collect();
    assert!(again.iter().all(|answer| !answer.created) && distinct.len() == ALIKE.len());
}

/// Rule E8. B59.
async fn names_are_data_in_every_operation(kit: Kit) {
    for name in [
        "a-b",
        "a.b",
        "a/b",
        "\"q\"",
        "O'Brien",
        "x;drop table job--",
        "%_[]*",
        "a b",
        "😀",
        "$1",
        "?1",
        "{a,b}",
    ] {
        let kit = kit.beside(name);
        let job = kit.running_one().await;
        kit.fail(job.proof, name, turno_contract::Retry::Never).await;
        kit.backend().retry(job.proof.job).await.unwrap();
        kit.backend().pause(kit.queue()).await.unwrap();
        assert_eq!(kit.claim_ids(1).await, vec![]);
        kit.backend().resume(kit.queue()).await.unwrap();
        let change =
            turno_contract::SettingsChange { description: Some(name.to_owned()), ..Default::default() };
        assert_eq!(kit.set(change).await.queue.as_deref(), Some(kit.queue()));
        kit.backend().wait(&[kit.queue().to_owned()], std::time::Duration::from_millis(1)).await.unwrap();
        assert_eq!(kit.promote().await, 0);
        assert_eq!(kit.claim_ids(2).await, vec![job.proof.job], "queue {name:?}");
        let queues = kit.backend().queue_list().await.unwrap();
        assert!(queues.iter().any(|queue| queue.queue.as_deref() == Some(kit.queue())));
    }
    let wildcard = kit.beside("100%");
    wildcard.enqueue_one().await;
    kit.beside("1000").enqueue_one().await;
    assert_eq!(wildcard.claim_n(10).await.len(), 1);
}

/// Rules E8, E9. B59: the same answer from every operation that takes a name.
async fn names_outside_the_rule_are_refused_everywhere(kit: Kit) {
    let backend: &dyn Backend = kit.backend();
    let second = std::time::Duration::from_secs(1);
    for name in ["", "a\0b", "a\nb", "\u{1}", "\u{7f}", &"n".repeat(201), &"é".repeat(101)] {
        let names = [name.to_owned()];
        let queue = ClaimRequest { queues: names.to_vec(), ..kit.request(1) };
        let worker = ClaimRequest { worker: name.to_owned(), ..kit.request(1) };
        let answers = [
            ("enqueue, queue", backend.enqueue(&[NewJob::new(name, KIND, "1")]).await.err()),
            ("enqueue, kind", backend.enqueue(&[NewJob::new(kit.queue(), name, "1")]).await.err()),
            ("claim, queue", backend.claim(&queue).await.err()),
            ("claim, worker", backend.claim(&worker).await.err()),
            ("complete, worker", complete_by(&kit, name).await.err()),
            ("pause", backend.pause(name).await.err()),
            ("resume", backend.resume(name).await.err()),
            ("queue_set", backend.queue_set(Some(name), &Default::default()).await.err()),
            ("promote", backend.promote(&names, 1).await.err()),
            ("wait", backend.wait(&names, second).await.err()),
        ];
        for (operation, error) in answers {
            let kind = error.map(|error| error.kind());
            assert_eq!(kind, Some(ErrorKind::InvalidArgument), "{operation}: {name:?}");
        }
    }
    assert_eq!(kit.count("job", "1 = 1").await, 0);
}

/// A completion by a worker of this name, of a job that nobody has.
async fn complete_by(kit: &Kit, worker: &str) -> turno_contract::Result<()> {
    let proof = turno_contract::Proof {
        job: turno_contract::JobId(1),
        attempt: 1,
        token: turno_contract::Token::random(),
    };
    let completion = turno_contract::Completion { proof, result: None };
    kit.backend().complete(worker, &[completion]).await.map(|_| ())
}

/// Rules E8, E9.
async fn keys_outside_the_rule_are_refused(kit: Kit) {
    for key in ["", "a\0b", &"k".repeat(513), &"é".repeat(257)] {
        for job in [kit.new_job().unique_key(key), kit.new_job().idempotency_key(key)] {
            refused_as(kit.backend().enqueue(&[kit.new_job(), job]).await, ErrorKind::InvalidArgument);
        }
    }
    assert_eq!(kit.count("job", "1 = 1").await, 0);
}

/// Rules E8, W2. B24.
async fn a_payload_longer_than_a_notification_is_enqueued_while_somebody_waits(kit: Kit) {
    let queue = format!("{}{}", kit.queue(), "q".repeat(200 - kit.queue().len()));
    kit.backend().wait(std::slice::from_ref(&queue), std::time::Duration::from_secs(60)).await.unwrap();
    let mut jobs = Vec::new();
    for bytes in [7_898, 7_998, 7_999, 8_000, 8_098, 100_000] {
        jobs.push(NewJob::new(&queue, KIND, format!("\"{}\"", "p".repeat(bytes))));
    }
    for job in &jobs {
        kit.enqueue_new(job.clone()).await;
    }
    kit.backend().enqueue(&vec![NewJob::new(&queue, KIND, "1"); 5000]).await.unwrap();
    let mut request = turno_contract::ClaimRequest::one(&queue, WORKER);
    request.limit = 6;
    let payloads: Vec<String> = kit.claim_with(&request).await.into_iter().map(|job| job.payload).collect();
    assert_eq!(payloads, jobs.into_iter().map(|job| job.payload).collect::<Vec<_>>());
}
