//! The HTTP API: a job's life, waiting for a job, repairs, and the document.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::cases;
use crate::common::{Running, until};
use crate::rig::Rig;

cases![
    a_job_is_enqueued_worked_and_shown,
    a_late_result_is_a_conflict_and_stands_in_the_ledger,
    many_jobs_are_enqueued_and_settled_in_one_request,
    a_trace_comes_by_header_or_field_and_is_claimed_with_the_job,
    a_claim_waits_for_a_job_and_can_be_repeated,
    a_job_is_cancelled_retried_reprioritized_and_its_queue_paused,
    lists_are_paged_by_key,
    a_body_is_an_object_and_a_refusal_names_its_field,
    a_schedule_is_put_again_and_again_and_becomes_jobs,
    the_document_describes_every_endpoint,
];

fn proof(job: &Value) -> Value {
    json!({"id": job["id"], "attempt": job["attempt"], "token": job["token"]})
}

fn settle(job: &Value, more: Value) -> Value {
    let mut settle = proof(job);
    settle.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    json!({"worker": "w", "jobs": [settle]})
}

fn a_job_is_enqueued_worked_and_shown(rig: &Rig) {
    let server = rig.serve(&[]);
    // The payload's very text: large integers, order and white space.
    let payload = r#"{ "z":1970670598291982290,"a" : [1.0, "é\u0000"] }"#;
    let body = format!(r#"{{"queue":"q","kind":"k","idempotency_key":"once","payload":{payload}}}"#);
    let json_type = [("content-type", "application/json; charset=utf-8")];
    let first = server.send("POST", "/api/v1/jobs", &json_type, &body);
    let second = server.send("POST", "/api/v1/jobs", &json_type, &body);
    assert_eq!((first.status, second.status), (201, 200));
    assert_eq!((&first.json()["id"], &second.json()["created"]), (&second.json()["id"], &json!(false)));
    let id = first.json()["id"].as_str().unwrap().to_owned();

    let claimed = server.post("/api/v1/claim", &json!({"queues": ["q"], "worker": "w", "lease_ms": 60_000}));
    assert!(claimed.text.contains(payload), "{claimed:?}");
    let claimed = claimed.json();
    let mut job = claimed["jobs"][0].clone();
    job["token"] = claimed["token"].clone();
    assert_eq!((&job["id"], &job["attempt"], &job["kind"]), (&json!(id), &json!(1), &json!("k")));

    let held = server.post("/api/v1/held", &json!({"token": job["token"]})).json();
    assert_eq!(held["jobs"][0]["id"], json!(id));
    let beat = server.post("/api/v1/heartbeat", &json!({"lease_ms": 60_000, "jobs": [proof(&job)]})).json();
    assert_eq!(beat["jobs"][0]["answer"], "held");
    assert!(beat["jobs"][0]["held_for_ms"].as_u64().unwrap() > 50_000);

    for status in ["done", "already"] {
        let said = server.post("/api/v1/complete", &settle(&job, json!({"result": {"n": 1}})));
        assert_eq!((said.status, &said.json()["jobs"][0]["status"]), (200, &json!(status)), "{said:?}");
    }
    let shown = server.get(&format!("/api/v1/jobs/{id}"));
    assert!(!shown.text.contains("1970670598291982290"), "a payload is redacted unless asked for");
    assert!(!shown.text.contains(job["token"].as_str().unwrap()), "a token is shown to nobody else");
    assert_eq!(shown.json()["job"]["state"], "succeeded");
    assert!(server.get(&format!("/api/v1/jobs/{id}?payload=true")).text.contains(payload));
}

/// Rule E12: the request's own header is for every job that names no trace.
fn a_trace_comes_by_header_or_field_and_is_claimed_with_the_job(rig: &Rig) {
    let server = rig.serve(&[]);
    let header = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let field = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-00";
    let json_type = ("content-type", "application/json");
    let one = json!({"queue": "q", "kind": "k"});
    let other = json!({"queue": "q", "kind": "k", "traceparent": field});
    let bad = json!({"queue": "q", "kind": "k", "traceparent": "garbage"});
    let traced = [json_type, ("traceparent", header)];
    assert_eq!(server.send("POST", "/api/v1/jobs", &traced, &one.to_string()).status, 201);
    let many = json!({"jobs": [other, one, bad]}).to_string();
    assert_eq!(server.send("POST", "/api/v1/jobs/batch", &traced, &many).status, 200);
    assert_eq!(
        server.send("POST", "/api/v1/jobs", &[json_type, ("traceparent", "x")], &one.to_string()).status,
        201
    );
    let claim = json!({"queues": ["q"], "worker": "w", "limit": 10});
    let jobs = server.post("/api/v1/claim", &claim).json()["jobs"].as_array().unwrap().clone();
    let traces: Vec<&Value> = jobs.iter().map(|job| &job["traceparent"]).collect();
    assert_eq!(traces, [&json!(header), &json!(field), &json!(header), &Value::Null, &Value::Null]);
    let id = jobs[1]["id"].as_str().unwrap();
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).json()["job"]["traceparent"], field);
}

fn a_late_result_is_a_conflict_and_stands_in_the_ledger(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "k", &[]);
    let job = server.claim("q");
    let mut forged = job.clone();
    forged["token"] = json!("6f2f0a1e-9d7b-4c0e-8a1f-2b3c4d5e6f70");
    let refused = server.post("/api/v1/complete", &settle(&forged, json!({})));
    assert_eq!(refused.problem(), (409, "lease_lost".into()));
    assert_eq!(server.post("/api/v1/release", &settle(&job, json!({"delay_ms": 3_600_000}))).status, 200);
    let otherwise = server.post("/api/v1/fail", &settle(&job, json!({"error": "late"})));
    assert_eq!(otherwise.problem(), (409, "conflict".into()));
    let mut nobody = job.clone();
    nobody["id"] = json!("999999999");
    assert_eq!(
        server.post("/api/v1/complete", &settle(&nobody, json!({}))).problem(),
        (404, "not_found".into())
    );
    let ledger = server.get(&format!("/api/v1/refused?job={id}")).json();
    assert_eq!(ledger["refused"].as_array().unwrap().len(), 2, "{ledger}");
    assert_eq!(
        server.post("/api/v1/heartbeat", &json!({"jobs": [proof(&job)]})).json()["jobs"][0]["answer"],
        "finished"
    );
    let forged = server.post("/api/v1/heartbeat", &json!({"jobs": [proof(&forged)]})).json();
    assert_eq!(forged["jobs"][0]["answer"], "lost");
}

fn many_jobs_are_enqueued_and_settled_in_one_request(rig: &Rig) {
    let server = rig.serve(&[]);
    let jobs: Vec<Value> = (0..30).map(|n| json!({"queue": "q", "kind": "k", "payload": n})).collect();
    let said = server.post("/api/v1/jobs/batch", &json!({"jobs": jobs}));
    assert_eq!((said.status, said.json()["jobs"].as_array().unwrap().len()), (200, 30));
    let none = server.post(
        "/api/v1/jobs/batch",
        &json!({"jobs": [{"queue": "q", "kind": "k"}, {"queue": "", "kind": "k"}]}),
    );
    assert_eq!(none.problem(), (422, "invalid_argument".into()));
    assert!(none.json()["detail"].as_str().unwrap().contains("row 2"), "{none:?}");

    let claimed = server.post("/api/v1/claim", &json!({"queues": ["q"], "worker": "w", "limit": 100})).json();
    let jobs = claimed["jobs"].as_array().unwrap();
    assert_eq!(jobs.len(), 30, "all or none of a batch");
    let mut settles: Vec<Value> = jobs
        .iter()
        .map(|job| json!({"id": job["id"], "attempt": job["attempt"], "token": claimed["token"]}))
        .collect();
    // One of many that is refused is an answer.
    settles[7]["attempt"] = json!(2);
    let said = server.post("/api/v1/complete", &json!({"worker": "w", "jobs": settles}));
    let answers = said.json();
    let answers = answers["jobs"].as_array().unwrap();
    assert_eq!((said.status, &answers[7]["status"]), (200, &json!("refused")), "{said:?}");
    assert_eq!(answers.iter().filter(|answer| answer["status"] == "done").count(), 29);
    assert_eq!(
        server.post("/api/v1/complete", &json!({"worker": "w", "jobs": []})).json()["jobs"],
        json!([])
    );
}

fn a_claim_waits_for_a_job_and_can_be_repeated(rig: &Rig) {
    let server = rig.serve(&[]);
    let token = "6f2f0a1e-9d7b-4c0e-8a1f-2b3c4d5e6f71";
    let body = json!({"queues": ["q"], "worker": "w", "wait_ms": 30_000, "token": token});
    let began = Instant::now();
    let id = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.post("/api/v1/claim", &body));
        // However early or late the job comes, the claim finds it.
        let id = server.post("/api/v1/jobs", &json!({"queue": "q", "kind": "k"})).json()["id"].clone();
        let said = waiting.join().unwrap();
        assert_eq!(said.json()["jobs"][0]["id"], id, "{said:?}");
        id
    });
    assert!(began.elapsed() < Duration::from_secs(20), "it was woken, not timed out");
    // The same token again answers the same job and takes no more.
    rig.enqueue("q", "k", &[]);
    let again = server.post("/api/v1/claim", &body).json();
    assert_eq!((&again["jobs"][0]["id"], again["jobs"].as_array().unwrap().len()), (&id, 1));
    let short = json!({"queues": ["nothing here"], "worker": "w", "wait_ms": 300});
    let began = Instant::now();
    assert_eq!(server.post("/api/v1/claim", &short).json()["jobs"], json!([]));
    assert!(began.elapsed() >= Duration::from_millis(300));
    let due = rig.enqueue("later", "k", &["--run-at", "9990-01-01T00:00:00Z"]);
    let answer = server.post("/api/v1/claim", &json!({"queues": ["later"], "worker": "w"})).json();
    assert!(answer["next_due_in_ms"].as_u64().unwrap() > 0, "job {due} is due some day: {answer}");
}

fn a_job_is_cancelled_retried_reprioritized_and_its_queue_paused(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "k", &[]);
    let said = server.post(&format!("/api/v1/jobs/{id}/priority"), &json!({"priority": -5}));
    assert_eq!((said.status, &said.json()["priority"]), (200, &json!(-5)));
    assert_eq!(server.send("POST", "/api/v1/queues/q/pause", &[], "").json()["paused"], true);
    let claim = json!({"queues": ["q"], "worker": "w"});
    assert_eq!(server.post("/api/v1/claim", &claim).json()["jobs"], json!([]));
    assert_eq!(server.get("/api/v1/stats").json()["queues"][0]["paused"], true);
    assert_eq!(server.send("POST", "/api/v1/queues/q/resume", &[], "").json()["paused"], false);

    let job = server.claim("q");
    let cancel = format!("/api/v1/jobs/{id}/cancel");
    assert_eq!(server.send("POST", &cancel, &[], "").json()["answer"], "requested");
    let beat = server.post("/api/v1/heartbeat", &json!({"jobs": [proof(&job)]})).json();
    assert_eq!(beat["jobs"][0]["cancel_requested"], true);
    assert_eq!(server.post(&cancel, &json!({"force": true})).json()["answer"], "cancelled");
    assert_eq!(server.post(&cancel, &json!({})).problem(), (409, "too_late".into()));
    assert_eq!(
        server.post(&format!("/api/v1/jobs/{id}/retry"), &json!({})).problem(),
        (409, "conflict".into())
    );
    assert_eq!(server.post("/api/v1/jobs/999999999/retry", &json!({})).problem(), (404, "not_found".into()));

    let dead = rig.dead(&server, "q", "broken");
    let said = server.send("POST", &format!("/api/v1/jobs/{dead}/retry"), &[], "");
    assert_eq!((said.status, &said.json()["state"]), (200, &json!("ready")));
    let story = server.get(&format!("/api/v1/jobs/{dead}")).json();
    assert_eq!((&story["attempts"][0]["error"], &story["job"]["failures"]), (&json!("broken"), &json!(0)));
    let queues = server.get("/api/v1/queues").json();
    assert_eq!((&queues["queues"][0]["queue"], &queues["queues"][1]["queue"]), (&Value::Null, &json!("q")));
}

/// A list of the values would say by their places alone what is meant.
fn a_body_is_an_object_and_a_refusal_names_its_field(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "k", &[]);
    let none = Value::Null;
    let row = json!(["q", "k", none, none, none, none, none, none, none, none]);
    let beat = json!({"jobs": [["1", 1, "3d6f0ad6-3c0e-4c73-9b0a-0a1b2c3d4e5f"]]});
    for (path, body, word) in [
        (format!("/jobs/{id}/cancel"), json!([true]), "object"),
        (format!("/jobs/{id}/cancel"), json!([]), "object"),
        (format!("/jobs/{id}/priority"), json!([7]), "object"),
        ("/jobs".to_owned(), row.clone(), "object"),
        ("/jobs/batch".to_owned(), json!({"jobs": [row]}), "jobs[0]: "),
        ("/heartbeat".to_owned(), beat, "jobs[0]: "),
        ("/jobs".to_owned(), json!({"queue": "q", "kind": "k", "run_at": "infinity"}), "run_at: "),
        ("/jobs".to_owned(), json!({"queue": "q", "kind": "k", "max_attempts": "3"}), "max_attempts: "),
    ] {
        let said = server.post(&format!("/api/v1{path}"), &body);
        assert_eq!(said.problem(), (422, "invalid_argument".into()), "{path} {body}");
        assert!(said.json()["detail"].as_str().unwrap().contains(word), "{path} {body}: {said:?}");
    }
    let page = server.get("/api/v1/jobs?state=ready").json();
    assert_eq!(page["jobs"].as_array().unwrap().len(), 1, "nothing was changed or made: {page}");
}

fn lists_are_paged_by_key(rig: &Rig) {
    let server = rig.serve(&[]);
    let jobs: Vec<Value> = (0..7).map(|n| json!({"queue": "q é&", "kind": format!("k{}", n % 2)})).collect();
    assert_eq!(server.post("/api/v1/jobs/batch", &json!({"jobs": jobs})).status, 200);
    let (mut seen, mut path) =
        (Vec::new(), "/api/v1/jobs?state=ready&limit=3&queue=q%20%C3%A9%26".to_owned());
    until("the last page", || {
        let page = server.get(&path).json();
        seen.extend(
            page["jobs"].as_array().unwrap().iter().map(|job| job["id"].as_str().unwrap().to_owned()),
        );
        path = format!("/api/v1/jobs?state=ready&limit=3&before={}", page["next"].as_str().unwrap_or("1"));
        page["next"].is_null()
    });
    let distinct: BTreeSet<&String> = seen.iter().collect();
    assert_eq!((seen.len(), distinct.len()), (7, 7));
    let of_kind = server.get("/api/v1/jobs?state=ready&kind=k1").json();
    assert_eq!(of_kind["jobs"].as_array().unwrap().len(), 3);
}

/// Rules K1, K3.
fn a_schedule_is_put_again_and_again_and_becomes_jobs(rig: &Rig) {
    let server = rig.serve(&[]);
    let put = |name: &str, body: &Value| {
        let headers = [("content-type", "application/json")];
        server.send("PUT", &format!("/api/v1/schedules/{name}"), &headers, &body.to_string())
    };
    let nightly = json!({"cron": "30 2 * * *", "zone": "Europe/Berlin", "queue": "q", "kind": "k",
        "payload": {"day": "{instant}"}, "missed": "all:7", "max_run_ms": 60_000, "unique_key": "one"});
    let first = put("a%2Fb", &nightly);
    assert_eq!((first.status, &first.json()["answer"]), (201, &json!("created")), "{first:?}");
    let shown = &first.json()["schedule"];
    assert!(shown["next_at"].as_str().unwrap().ends_with(":30:00Z"), "{shown}");
    assert_eq!((&shown["name"], &shown["max_run_ms"]), (&json!("a/b"), &json!(60_000)));
    let again = put("a%2Fb", &nightly);
    assert_eq!((again.status, &again.json()["answer"]), (200, &json!("unchanged")));
    let mut urgent = nightly.clone();
    urgent["priority"] = json!(-5);
    let changed = put("a%2Fb", &urgent).json();
    assert_eq!((&changed["answer"], &changed["schedule"]["priority"]), (&json!("changed"), &json!(-5)));
    assert_eq!(changed["schedule"]["next_at"], shown["next_at"], "only an expression or a zone counts anew");
    let listed = server.get("/api/v1/schedules?payload=true").json()["schedules"].clone();
    assert_eq!((&listed[0]["payload"], &listed[1]), (&json!({"day": "{instant}"}), &Value::Null));
    for (field, value, word) in [
        ("cron", json!("0 0 30 2 *"), "never comes"),
        ("cron", json!("often"), "often"),
        ("zone", json!("Mars/Olympus"), "no time zone"),
        ("missed", json!("all:0"), "all:N"),
        ("queue", json!(""), "queue"),
        ("priority", json!(1001), "priority"),
        ("when", json!("now"), "when"),
    ] {
        let mut bad = nightly.clone();
        bad[field] = value;
        let said = put("bad", &bad);
        assert_eq!(said.problem(), (422, "invalid_argument".into()), "{field}");
        assert!(said.json()["detail"].as_str().unwrap().contains(word), "{field}: {said:?}");
    }
    assert_eq!(put("bad", &json!({"cron": "* * * * *"})).problem().0, 422, "a queue and a kind are needed");
    let every_second = json!({"cron": "* * * * * *", "queue": "q", "kind": "k", "payload": "{instant}"});
    assert_eq!(put("tick", &every_second).status, 201);
    let work = rig.command(&["work", "--queue", "another", "--kind", "none=true"]);
    let _worker = Running::start(work);
    until("two instants have their jobs", || {
        let jobs = server.get("/api/v1/jobs?state=ready&queue=q").json();
        jobs["jobs"].as_array().unwrap().len() >= 2
    });
    assert_eq!(server.get("/api/v1/schedules").json()["schedules"].as_array().unwrap().len(), 2);
}

fn the_document_describes_every_endpoint(rig: &Rig) {
    let server = rig.serve(&[]);
    let document = server.get("/api/v1/openapi.json").json();
    let paths = document["paths"].as_object().unwrap();
    let mut operations: Vec<&str> = paths
        .values()
        .flat_map(|path| path.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    operations.sort_unstable();
    let expected = [
        "cancel",
        "claim",
        "complete",
        "enqueue",
        "enqueue_many",
        "fail",
        "heartbeat",
        "held",
        "job",
        "jobs",
        "pause",
        "queues",
        "refused",
        "release",
        "reprioritize",
        "resume",
        "retry",
        "schedule_pause",
        "schedule_put",
        "schedule_remove",
        "schedule_resume",
        "schedules",
        "stats",
    ];
    assert_eq!(operations, expected);
    // What a client has to know about each: what else may be answered, and what to do when nobody knows what was done.
    for (path, methods) in paths {
        for operation in methods.as_object().unwrap().values() {
            let answers = operation["responses"].as_object().unwrap();
            let id = operation["operationId"].as_str().unwrap();
            for status in ["401", "403", "422", "503"] {
                assert!(answers.contains_key(status), "{path}: {status}");
            }
            for status in ["408", "413", "415"] {
                let has_a_body = operation.get("requestBody").is_some();
                assert_eq!(answers.contains_key(status), has_a_body, "{path}: {status}");
            }
            if ["enqueue", "enqueue_many", "claim", "complete"].contains(&id) {
                let text = operation["description"].as_str().unwrap();
                assert!(text.contains("outcome_unknown") && text.contains("again"), "{id}: {text}");
            }
        }
    }
    // Every endpoint of the document exists, and says which method it takes.
    for path in paths.keys() {
        let path = path.replace("{id}", "1").replace("{queue}", "q").replace("{schedule}", "s");
        let said = server.send("DELETE", &path, &[], "");
        assert_eq!(said.problem(), (405, "method_not_allowed".into()), "{path}");
        assert!(
            said.header("allow")
                .is_some_and(|allow| ["GET", "POST", "PUT"].iter().any(|method| allow.contains(method))),
            "{said:?}"
        );
    }
}
