//! The pages, as a browser without a script sees them.

use crate::cases;
use crate::rig::{Rig, Said, Server, token};

cases![
    the_overview_puts_the_oldest_due_job_first,
    one_job_is_shown_with_its_story_and_its_payload_only_on_request,
    dead_jobs_are_grouped_by_error_and_retried_together,
    changes_are_asked_for_once_more_and_need_the_form_of_the_login,
    a_login_begins_with_a_token_and_ends,
    lists_and_searches_find_jobs,
    a_search_among_many_says_how_far_it_went_and_goes_on,
    text_from_jobs_is_text,
    schedules_are_shown_with_their_next_instants_and_changed_when_confirmed,
];

/// The value of a hidden field.
#[track_caller]
fn hidden(page: &Said, name: &str) -> String {
    let begin = format!("name=\"{name}\" value=\"");
    let rest = page.text.split_once(&begin).unwrap_or_else(|| panic!("no field {name}: {}", page.text)).1;
    rest.split('"').next().unwrap().to_owned()
}

fn the_overview_puts_the_oldest_due_job_first(rig: &Rig) {
    let server = rig.serve(&[]);
    assert!(server.get("/").text.contains("There is no queue yet"));
    rig.enqueue("first", "k", &[]);
    rig.enqueue("a second", "k", &[]);
    rig.enqueue("later", "k", &["--run-at", "9990-01-01T00:00:00Z"]);
    let page = server.get("/");
    let place = |queue: &str| page.text.find(&format!("href=\"/queues/{queue}\"")).unwrap();
    assert!(place("first") < place("a%20second") && place("a%20second") < place("later"), "{}", page.text);
    let queue = server.get("/queues/a%20second");
    assert!(queue.text.contains("Max attempts") && queue.text.contains("<svg"), "{}", queue.text);
    assert_eq!(server.get("/queues/none").status, 404);
    for path in ["/jobs/abc", "/jobs?state=foo"] {
        let page = server.get(path);
        assert!(page.status == 422 && page.text.contains("<html"), "{path}: {}", page.text);
    }
    for asset in ["style.css", "refresh.js", "icon.svg"] {
        assert_eq!(server.get(&format!("/assets/{asset}")).status, 200);
    }
}

fn one_job_is_shown_with_its_story_and_its_payload_only_on_request(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "k", &["--payload", "{\"secret\":1}", "--unique-key", "order 7"]);
    let job = server.claim("q");
    let page = server.get(&format!("/jobs/{id}"));
    assert!(page.text.contains("order 7") && page.text.contains("Lease until"), "{}", page.text);
    assert!(!page.text.contains("secret"), "a payload is hidden until it is asked for");
    assert!(!page.text.contains(job["token"].as_str().unwrap()));
    assert!(server.get(&format!("/jobs/{id}?payload=true")).text.contains("secret"));
    let body = serde_json::json!({"worker": "w", "jobs": [{"id": id, "attempt": 1, "token": job["token"], "error": "boom"}]});
    assert_eq!(server.post("/api/v1/fail", &body).status, 200);
    let late =
        serde_json::json!({"worker": "late", "jobs": [{"id": id, "attempt": 1, "token": job["token"]}]});
    assert_eq!(server.post("/api/v1/complete", &late).status, 409);
    let page = server.get(&format!("/jobs/{id}"));
    assert!(page.text.contains("boom") && page.text.contains("already settled"), "{}", page.text);
    assert!(server.get("/refused").text.contains(&format!("/jobs/{id}")));
    assert_eq!((server.get("/jobs/999999999").status, server.get("/jobs/abc").status), (404, 422));
}

fn dead_jobs_are_grouped_by_error_and_retried_together(rig: &Rig) {
    let server = rig.serve(&[]);
    let ids = [31, 32].map(|n| rig.dead(&server, "q", &format!("timeout after {n} ms\nat line {n}")));
    let other = rig.dead(&server, "q", "refused");
    let page = server.get("/dead");
    assert!(page.text.contains("2 × ") && page.text.contains("1 × "), "{}", page.text);
    let (form_token, group) = (hidden(&page, "form_token"), hidden(&page, "ids"));
    let together: std::collections::BTreeSet<&str> = group.split(' ').collect();
    assert_eq!(together, ids.iter().map(String::as_str).collect());
    let fields = format!("form_token={form_token}&ids={}", group.replace(' ', "+"));
    let question = server.form("/dead/retry", &fields);
    assert!(question.text.contains("Retry 2 jobs?"), "{}", question.text);
    assert!(server.get(&format!("/jobs/{}", ids[0])).text.contains("state dead"), "it was only asked");
    assert_eq!(server.form("/dead/retry", &format!("{fields}&sure=true")).status, 303);
    for (id, state) in [(&ids[0], "ready"), (&ids[1], "ready"), (&other, "dead")] {
        assert!(
            server.get(&format!("/jobs/{id}")).text.contains(&format!("state {state}")),
            "{id} is {state}"
        );
    }
    assert_eq!(server.form("/dead/retry", &format!("form_token={form_token}&ids=")).status, 422);
}

fn changes_are_asked_for_once_more_and_need_the_form_of_the_login(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "k", &[]);
    let shown = |what: &str| server.get(&format!("/jobs/{id}")).text.contains(what);
    let path = format!("/jobs/{id}/priority");
    let form_token = hidden(&server.get(&path), "form_token");
    assert_eq!(server.form(&path, "form_token=guessed&priority=-7").status, 403);
    assert_eq!(server.form(&path, "priority=-7").status, 422);
    assert!(!shown(">-7</dd>"));
    assert_eq!(server.form(&path, &format!("form_token={form_token}&priority=x")).status, 422);
    assert_eq!(server.form(&path, &format!("form_token={form_token}&priority=1001")).status, 422);
    assert_eq!(server.form(&path, &format!("form_token={form_token}&priority=-7")).status, 303);
    assert!(shown(">-7</dd>"));
    for (path, word) in [("/queues/q/pause", "paused"), ("/queues/q/resume", "Pause")] {
        assert_eq!(server.get(path).status, 200);
        assert_eq!(server.form(path, &format!("form_token={form_token}")).status, 303);
        assert!(server.get("/queues/q").text.contains(word));
    }
    let cancel = format!("/jobs/{id}/cancel");
    assert!(server.get(&cancel).text.contains("Revoke it at once"));
    assert_eq!(server.form(&cancel, &format!("form_token={form_token}")).status, 303);
    assert!(shown("state cancelled"));
    assert_eq!(server.form(&cancel, &format!("form_token={form_token}&force=true")).status, 409);
    let from_elsewhere =
        [("content-type", "application/x-www-form-urlencoded"), ("origin", "http://evil.example")];
    assert_eq!(
        server.send("POST", "/queues/q/pause", &from_elsewhere, &format!("form_token={form_token}")).status,
        403
    );
}

fn a_login_begins_with_a_token_and_ends(rig: &Rig) {
    let id = rig.enqueue("q", "k", &[]);
    let tokens = rig.token_file();
    let mut server = rig.serve(&["--token-file", &tokens]);
    let page = server.get("/jobs?state=ready&queue=q");
    assert_eq!(page.header("location"), Some("/login?next=%2Fjobs%3Fstate%3Dready%26queue%3Dq"));
    assert_eq!(server.form("/queues/q/pause", "form_token=x").header("location"), Some("/login"));
    assert_eq!(server.form("/login", "token=wrong").status, 401);
    let login = |server: &Server, role: &str, next: &str| {
        server.form("/login", &format!("token={}&next={next}", token(role)))
    };
    assert_eq!(login(&server, "viewer", "//evil.example").header("location"), Some("/"));
    let said = login(&server, "viewer", "/refused");
    assert_eq!((said.status, said.header("location")), (303, Some("/refused")));
    let cookie = said.header("set-cookie").unwrap();
    assert!(cookie.contains("HttpOnly") && cookie.contains("SameSite=Strict"), "{cookie}");
    assert!(!cookie.contains("viewer"), "the cookie is not the token");
    server.cookie = cookie.split(';').next().map(str::to_owned);
    let page = server.get("/queues/q");
    assert!(page.status == 200 && !page.text.contains("/queues/q/pause"), "a viewer is offered no change");
    assert_eq!(server.get(&format!("/jobs/{id}/cancel")).status, 403);
    assert_eq!(server.get("/api/v1/stats").problem().0, 401, "a cookie is no token of the API");
    let logout = format!("form_token={}", hidden(&page, "form_token"));
    assert_eq!(server.form("/logout", "form_token=x").status, 403);
    assert_eq!(server.form("/logout", &logout).header("location"), Some("/login"));
    assert_eq!(server.get("/").status, 303);
    // The producer may log in and see nothing.
    let said = login(&server, "producer", "/");
    server.cookie = said.header("set-cookie").unwrap().split(';').next().map(str::to_owned);
    assert_eq!(server.get("/").status, 403);
}

fn lists_and_searches_find_jobs(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "welcome", &["--unique-key", "order 7", "--idempotency-key", "idem"]);
    let jobs: Vec<_> = (0..55).map(|_| serde_json::json!({"queue": "many", "kind": "k"})).collect();
    assert_eq!(server.post("/api/v1/jobs/batch", &serde_json::json!({"jobs": jobs})).status, 200);
    let row = format!("href=\"/jobs/{id}\"");
    assert!(server.get("/jobs?state=ready&queue=q&kind=").text.contains(&row));
    assert!(!server.get("/jobs?state=ready&queue=many").text.contains(&row));
    let page = server.get("/jobs?state=ready");
    let older = page
        .text
        .split("<a class=\"button\" href=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&amp;", "&")
        .replace("&#38;", "&");
    assert!(older.contains("before="), "{older}");
    assert!(server.get(&older).text.contains(&row), "the oldest is on the second page");
    assert_eq!(server.get(&format!("/search?q={id}")).header("location"), Some(&*format!("/jobs/{id}")));
    for q in ["welcome", "order+7", "idem"] {
        assert!(server.get(&format!("/search?q={q}")).text.contains(&row), "{q}");
    }
    let named_like_the_id = rig.enqueue("q", "k", &["--idempotency-key", &id]);
    let both = server.get(&format!("/search?q={id}")).text;
    assert!(both.contains(&row) && both.contains(&format!("href=\"/jobs/{named_like_the_id}\"")));
    assert!(server.get("/search?q=nothing").text.contains("No job has this id"));
    assert_eq!(server.get("/search?q=").status, 422);
    assert_eq!(server.get(&format!("/search?q={}", "k".repeat(513))).status, 422);
    let longest = server.get(&format!("/search?q={}", "k".repeat(512)));
    assert_eq!(longest.status, 200, "a key may be longer than a kind");
    assert_eq!(server.get("/jobs?state=lost").status, 422);
}

/// Rule V6.
fn a_search_among_many_says_how_far_it_went_and_goes_on(rig: &Rig) {
    let server = rig.serve(&[]);
    let id = rig.enqueue("q", "rare", &[]);
    let jobs: Vec<_> = (0..10_050).map(|_| serde_json::json!({"queue": "q", "kind": "k"})).collect();
    assert_eq!(server.post("/api/v1/jobs/batch", &serde_json::json!({"jobs": jobs})).status, 200);
    let row = format!("href=\"/jobs/{id}\"");
    let page = server.get("/jobs?state=ready&kind=rare").text;
    assert!(
        page.contains("Searched back to job") && page.contains("Search on") && !page.contains(&row),
        "{page}"
    );
    let said = server.get("/api/v1/jobs?state=ready&kind=rare").json();
    assert!(said["jobs"].as_array().unwrap().is_empty() && said["next"] == said["searched_to"], "{said}");
    let before = said["next"].as_str().unwrap().to_owned();
    let more = server.get(&format!("/api/v1/jobs?state=ready&kind=rare&before={before}")).json();
    assert_eq!((&more["jobs"][0]["id"], &more["next"]), (&serde_json::json!(id), &serde_json::Value::Null));
    assert!(server.get(&format!("/jobs?state=ready&kind=rare&before={before}")).text.contains(&row));
    let found = server.get("/search?q=rare").text;
    assert!(found.contains(&format!("ready jobs</a>, searched back to job {before}")), "{found}");
    let listed = rig.call(&["job", "list", "--state", "ready", "--kind", "rare", "--json"]);
    assert!(
        listed.out.is_empty() && listed.err.contains(&format!("--before {before} goes on")),
        "{listed:?}"
    );
    let listed = rig.call(&["job", "list", "--kind", "rare", "--before", &before, "--json"]);
    assert_eq!(listed.documents()[0]["id"], serde_json::json!(id));
}

fn text_from_jobs_is_text(rig: &Rig) {
    let server = rig.serve(&[]);
    let evil = "<script>alert(1)</script>\"'&";
    let id = rig.enqueue(
        evil,
        evil,
        &["--payload", "\"</pre><script>\"", "--unique-key", evil, "--max-attempts", "1"],
    );
    let job = server.claim(evil);
    let body = serde_json::json!({"worker": evil, "jobs": [{"id": id, "attempt": 1, "token": job["token"], "error": evil}]});
    assert_eq!(server.post("/api/v1/fail", &body).status, 200);
    let escaped = "%3Cscript%3Ealert%281%29%3C%2Fscript%3E%22%27%26";
    let pages = [
        "/".to_owned(),
        format!("/queues/{escaped}"),
        format!("/jobs/{id}?payload=true"),
        "/dead".into(),
        format!("/jobs?state=dead&queue={escaped}"),
        format!("/search?q={escaped}"),
        format!("/queues/{escaped}/pause"),
        format!("/login?next={escaped}"),
        format!("/nothing/{escaped}"),
    ];
    for path in pages {
        let page = server.get(&path);
        assert!(page.status < 500 && !page.text.contains("<script>"), "{path}: {}", page.text);
    }
}

/// Rules K2, K8.
fn schedules_are_shown_with_their_next_instants_and_changed_when_confirmed(rig: &Rig) {
    let server = rig.serve(&[]);
    assert!(server.get("/schedules").text.contains("There is no schedule"));
    let name = "a/b <night>";
    let add = ["schedule", "add", name, "--cron", "30 2 * * *", "--zone", "Europe/Berlin", "--queue", "q"];
    let answer = rig.call(&[&add[..], &["--kind", "k", "--payload", "\"secret\""]].concat());
    assert_eq!(answer.status, Some(0), "{answer:?}");
    let page = server.get("/schedules");
    assert!(
        page.text.contains("a/b &#60;night&#62;") && page.text.contains("[Europe/Berlin]"),
        "{}",
        page.text
    );
    assert_eq!(page.text.matches("T02:30:00+0").count(), 3, "{}", page.text);
    assert!(!page.text.contains("secret") && !page.text.contains(">late "), "{}", page.text);
    let listed = &server.get("/api/v1/schedules").json()["schedules"][0];
    assert_eq!((listed["name"].as_str(), listed["paused_at"].as_str()), (Some(name), None));
    assert!(listed["payload"]["redacted_bytes"].is_number(), "{listed}");
    let path = "/schedules/a%2Fb%20%3Cnight%3E";
    for (what, shown) in [("pause", true), ("resume", false)] {
        let question = server.get(&format!("{path}/{what}"));
        assert!(question.text.contains("the schedule a/b"), "{}", question.text);
        let form_token = hidden(&question, "form_token");
        assert_eq!(server.form(&format!("{path}/{what}"), "form_token=guessed").status, 403);
        assert_eq!(server.get("/schedules").text.contains(">paused<"), !shown, "it was only asked");
        assert_eq!(server.form(&format!("{path}/{what}"), &format!("form_token={form_token}")).status, 303);
        assert_eq!(server.get("/schedules").text.contains(">paused<"), shown);
    }
    let none = serde_json::json!({});
    assert_eq!(server.post(&format!("/api/v1{path}/pause"), &none).json()["answer"], "paused");
    assert_eq!(server.post(&format!("/api/v1{path}/resume"), &none).json()["answer"], "resumed");
    assert_eq!(server.post("/api/v1/schedules/none/pause", &none).status, 404);
    let form_token = hidden(&server.get(&format!("{path}/remove")), "form_token");
    assert_eq!(server.form(&format!("{path}/remove"), &format!("form_token={form_token}")).status, 303);
    assert_eq!(server.get("/api/v1/schedules").json()["schedules"], serde_json::json!([]));
    assert_eq!(server.post(&format!("/api/v1{path}/remove"), &none).status, 404);
}
