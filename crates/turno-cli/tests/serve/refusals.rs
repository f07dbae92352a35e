//! What is refused over HTTP, and how: requests without a login, beyond a role, from another site, and bad input.

use serde_json::json;

use crate::cases;
use crate::common::{signal, until};
use crate::rig::{Engine, Rig, Server};

cases![
    each_role_may_do_what_its_grants_say,
    bad_input_is_a_problem_with_a_code,
    other_sites_and_other_names_are_refused,
    a_read_only_server_changes_nothing,
    a_database_login_that_may_only_look_has_the_last_word,
    a_proxy_is_believed_only_from_its_address,
    nobody_listens_beyond_this_machine_without_a_login,
    a_database_that_is_away_is_unavailable,
    a_signal_ends_the_server_while_a_claim_waits,
];

fn each_role_may_do_what_its_grants_say(rig: &Rig) {
    let tokens = rig.token_file();
    let mut server = rig.serve(&["--token-file", &tokens]);
    // Nobody's body is read, nor that of somebody without the right: what it holds does not matter.
    assert_eq!(server.send("POST", "/api/v1/complete", &[], "{").problem(), (401, "unauthorized".into()));
    let viewer = server.as_role("viewer").send("POST", "/api/v1/complete", &[], "{");
    assert_eq!(viewer.problem(), (403, "permission_denied".into()));
    server.token = None;
    let nobody = server.get("/api/v1/stats");
    assert_eq!(nobody.problem(), (401, "unauthorized".into()));
    assert!(nobody.header("www-authenticate").unwrap().starts_with("Bearer"));
    server.token = Some("a token that nobody knows".into());
    assert_eq!(server.get("/api/v1/stats").problem(), (401, "unauthorized".into()));
    let id = rig.enqueue("q", "k", &["--run-at", "9990-01-01T00:00:00Z"]);
    let requests = [
        (
            "enqueue",
            "/api/v1/jobs".to_owned(),
            json!({"queue": "q", "kind": "k"}),
            "producer scheduler operator",
        ),
        ("urgent", "/api/v1/jobs".into(), json!({"queue": "q", "kind": "k", "priority": -1}), "scheduler"),
        ("batch", "/api/v1/jobs/batch".into(), json!({"jobs": []}), "producer scheduler operator"),
        ("claim", "/api/v1/claim".into(), json!({"queues": ["none"], "worker": "w"}), "worker"),
        ("complete", "/api/v1/complete".into(), json!({"worker": "w", "jobs": []}), "worker"),
        ("priority", format!("/api/v1/jobs/{id}/priority"), json!({"priority": 1}), "scheduler"),
        ("pause", "/api/v1/queues/q/pause".into(), json!(null), "operator"),
        ("stats", "/api/v1/stats".into(), json!(null), "worker scheduler operator viewer"),
        ("jobs", "/api/v1/jobs?state=ready".into(), json!(null), "scheduler operator viewer"),
        ("job", format!("/api/v1/jobs/{id}"), json!(null), "operator viewer"),
        ("queues", "/api/v1/queues".into(), json!(null), "producer worker scheduler operator viewer"),
        ("metrics", "/metrics".into(), json!(null), "worker scheduler operator viewer"),
        ("schedules", "/api/v1/schedules".into(), json!(null), "worker scheduler operator viewer"),
    ];
    for role in ["producer", "worker", "scheduler", "operator", "viewer"] {
        for (what, path, body, roles) in &requests {
            let server = server.as_role(role);
            let said = match (*what, body.is_null()) {
                ("pause", _) => server.send("POST", path, &[], ""),
                (_, true) => server.get(path),
                (_, false) => server.post(path, body),
            };
            if roles.split(' ').any(|known| known == role) {
                assert!(said.status < 300, "{role} {what}: {said:?}");
            } else {
                assert_eq!(said.problem(), (403, "permission_denied".into()), "{role} {what}");
            }
        }
    }
}

fn bad_input_is_a_problem_with_a_code(rig: &Rig) {
    let server = rig.serve(&[]);
    let deep = format!(r#"{{"queue":"q","kind":"k","payload":{}{}}}"#, "[".repeat(101), "]".repeat(101));
    let long = format!(r#"{{"queue":"{}","kind":"k"}}"#, "q".repeat(201));
    let large = format!(r#"{{"queue":"q","kind":"k","payload":"{}"}}"#, "x".repeat(1 << 20));
    let table: [(&str, &str, u16, &str); 12] = [
        ("/api/v1/jobs", "{", 400, "invalid_json"),
        ("/api/v1/jobs", "", 400, "invalid_json"),
        ("/api/v1/jobs", r#"{"queue":"q"}"#, 422, "invalid_argument"),
        ("/api/v1/jobs", r#"{"queue":"q","kind":"k","payloads":1}"#, 422, "invalid_argument"),
        ("/api/v1/jobs", r#"{"queue":"q","kind":"k","run_at":"tomorrow"}"#, 422, "invalid_argument"),
        ("/api/v1/jobs", r#"{"queue":"q","kind":"k","max_attempts":0}"#, 422, "invalid_argument"),
        ("/api/v1/jobs", &deep, 422, "invalid_argument"),
        ("/api/v1/jobs", &long, 422, "invalid_argument"),
        ("/api/v1/jobs", &large, 422, "invalid_argument"),
        ("/api/v1/claim", r#"{"queues":[],"worker":"w"}"#, 422, "invalid_argument"),
        ("/api/v1/claim", r#"{"queues":["q"],"worker":"w","wait_ms":60001}"#, 422, "invalid_argument"),
        ("/api/v1/claim", r#"{"queues":["q"],"worker":"w","limit":101}"#, 422, "invalid_argument"),
    ];
    for (path, body, status, code) in table {
        let said = server.send("POST", path, &[("content-type", "application/json")], body);
        let shown: String = body.chars().take(80).collect();
        assert_eq!(said.problem(), (status, code.into()), "{path} {shown}");
    }
    let plain = server.send("POST", "/api/v1/jobs", &[("content-type", "text/plain")], "{}");
    assert_eq!(plain.problem(), (415, "unsupported_media_type".into()));
    let queries = [
        "/api/v1/jobs",
        "/api/v1/jobs?state=lost",
        "/api/v1/jobs?state=dead&limit=0",
        "/api/v1/jobs?state=dead&x=1",
        "/api/v1/jobs?state=dead&payload=true&limit=101",
        "/api/v1/jobs/abc",
        "/api/v1/jobs/-1",
        "/api/v1/jobs/99999999999999999999",
        "/api/v1/stats?window_ms=0",
        "/api/v1/stats?window_ms=86400001",
        "/api/v1/refused?before=x",
    ];
    for path in queries {
        assert_eq!(server.get(path).problem(), (422, "invalid_argument".into()), "{path}");
    }
    assert_eq!(server.get("/api/v1/nothing").problem(), (404, "not_found".into()));
    let nil = json!({"token": "00000000-0000-0000-0000-000000000000"});
    assert_eq!(server.post("/api/v1/held", &nil).problem(), (422, "invalid_argument".into()));
    assert_eq!(server.get("/api/v1/stats").json()["queues"], json!([]), "nothing was written");
}

fn other_sites_and_other_names_are_refused(rig: &Rig) {
    let server = rig.serve(&[]);
    let pause = |headers: &[(&str, &str)]| server.send("POST", "/api/v1/queues/q/pause", headers, "");
    assert_eq!(pause(&[("origin", "http://evil.example")]).problem(), (403, "cross_origin".into()));
    assert_eq!(pause(&[("sec-fetch-site", "cross-site")]).problem(), (403, "cross_origin".into()));
    assert_eq!(pause(&[("host", "evil.example")]).problem(), (421, "misdirected".into()));
    assert_eq!(server.send("GET", "/", &[("host", "evil.example:80")], "").problem().0, 421);
    for name in ["forwarded", "x-forwarded-for", "via"] {
        assert_eq!(pause(&[(name, "for=192.0.2.1")]).problem(), (403, "proxied".into()), "{name}");
    }
    assert_eq!(pause(&[("origin", &server.url)]).status, 200);
    let said = server.get("/");
    let policy = said.header("content-security-policy").unwrap();
    assert!(policy.contains("default-src 'none'") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(
        (said.header("x-frame-options"), said.header("cache-control")),
        (Some("DENY"), Some("no-store"))
    );
}

fn a_read_only_server_changes_nothing(rig: &Rig) {
    let id = rig.enqueue("q", "k", &[]);
    let server = rig.serve(&["--read-only"]);
    let job = json!({"queue": "q", "kind": "k"});
    let claim = json!({"queues": ["q"], "worker": "w"});
    for (path, body) in [("/api/v1/jobs", &job), ("/api/v1/claim", &claim)] {
        assert_eq!(server.post(path, body).problem(), (403, "read_only".into()));
    }
    assert_eq!(server.send("POST", "/api/v1/queues/q/pause", &[], "").problem(), (403, "read_only".into()));
    assert_eq!(server.get(&format!("/api/v1/jobs/{id}")).json()["job"]["state"], "ready");
    let page = server.get(&format!("/jobs/{id}"));
    assert!(page.status == 200 && !page.text.contains(&format!("/jobs/{id}/cancel")), "{}", page.text);
    assert_eq!(server.get(&format!("/jobs/{id}/cancel")).status, 403);
}

/// Rule X2. Everybody at this machine may do everything, and the login of the database may not.
fn a_database_login_that_may_only_look_has_the_last_word(rig: &Rig) {
    let Some(url) = rig.login("viewer") else { return };
    let id = rig.enqueue("q", "k", &[]);
    let cron = ["schedule", "add", "s", "--cron", "0 0 1 1 *", "--queue", "q", "--kind", "k"];
    assert_eq!(rig.call(&cron).status, Some(0));
    let server = rig.serve_as(&url, &["--listen", "127.0.0.1:0"]);
    let job = format!("/jobs/{id}");
    for path in [
        "/",
        "/queues/q",
        "/jobs?state=ready",
        &job,
        "/dead",
        "/refused",
        "/schedules",
        "/search?q=k",
        "/healthz",
    ] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    assert!(server.get(&job).text.contains("state ready"));
    for path in ["stats", "jobs?state=ready", &format!("jobs/{id}"), "refused", "schedules"] {
        assert_eq!(server.get(&format!("/api/v1/{path}")).status, 200, "{path}");
    }
    assert!(server.get("/metrics").text.contains("\nturno_database_up 1.0\n"));
    let proof = json!({"id": id, "attempt": 1, "token": "6f2f0a1e-9d7b-4c0e-8a1f-2b3c4d5e6f70"});
    let settle = json!({"worker": "w", "jobs": [proof]});
    let changes = [
        ("jobs".to_owned(), json!({"queue": "q", "kind": "k"})),
        ("jobs".into(), json!({"queue": "q", "kind": "k", "priority": 1})),
        ("claim".into(), json!({"queues": ["q"], "worker": "w"})),
        ("heartbeat".into(), json!({"jobs": [proof]})),
        ("complete".into(), settle.clone()),
        ("release".into(), settle),
        (format!("jobs/{id}/cancel"), json!({})),
        (format!("jobs/{id}/retry"), json!({})),
        (format!("jobs/{id}/priority"), json!({"priority": 1})),
        ("queues/q/pause".into(), json!({})),
        ("schedules/s/pause".into(), json!({})),
        ("schedules/s/resume".into(), json!({})),
        ("schedules/s/remove".into(), json!({})),
    ];
    for (path, body) in changes {
        let said = server.post(&format!("/api/v1/{path}"), &body);
        assert_eq!(said.problem(), (403, "permission_denied".into()), "{path}");
        // In the words of the database, not of this server's own roles.
        let detail = said.json()["detail"].as_str().unwrap().to_owned();
        assert!(detail.contains("denied") && detail.contains("SQLSTATE 42"), "{path}: {detail}");
    }
    let question = server.get(&format!("{job}/cancel"));
    let field = question.text.split_once("name=\"form_token\" value=\"").unwrap().1;
    let form = format!("form_token={}", field.split('"').next().unwrap());
    for path in [format!("{job}/cancel"), "/queues/q/pause".into(), "/schedules/s/remove".into()] {
        let page = server.form(&path, &form);
        assert_eq!(page.status, 403, "{path}: {page:?}");
        assert!(page.header("content-type").unwrap().starts_with("text/html"), "{path}");
    }
    assert_eq!(
        server.get("/api/v1/jobs?state=ready").json()["jobs"][0]["id"],
        id.as_str(),
        "nothing was done"
    );
}

fn a_proxy_is_believed_only_from_its_address(rig: &Rig) {
    let user =
        [("x-remote-user", "ada"), ("origin", "https://jobs.example"), ("x-forwarded-host", "jobs.example")];
    let args = ["--proxy-header", "X-Remote-User", "--proxy-role", "viewer", "--proxy-role", "operator"];
    let server = rig.serve(&args);
    assert_eq!(server.get("/api/v1/stats").problem(), (401, "unauthorized".into()));
    assert_eq!(server.send("GET", "/api/v1/stats", &user, "").status, 200);
    assert_eq!(server.send("POST", "/api/v1/queues/q/pause", &user, "").status, 200);
    let claim = json!({"queues": ["q"], "worker": "w"}).to_string();
    let headers = [&user[..], &[("content-type", "application/json")]].concat();
    assert_eq!(
        server.send("POST", "/api/v1/claim", &headers, &claim).problem(),
        (403, "permission_denied".into())
    );
    assert!(server.send("GET", "/", &user, "").text.contains("ada"));
    // A page that made its own name resolve to here can send the header as well.
    let named = |server: &Server, host| {
        server.send(
            "GET",
            "/api/v1/stats",
            &[&user[..], &[("host", host), ("via", "1.1 proxy")]].concat(),
            "",
        )
    };
    assert_eq!(named(&server, "jobs.example").problem(), (421, "misdirected".into()));
    let known = rig.serve(&[&args[..], &["--host", "jobs.example"]].concat());
    assert_eq!(named(&known, "jobs.example").status, 200);
    assert_eq!(named(&known, "evil.example:80").problem(), (421, "misdirected".into()));
    let elsewhere = rig.serve(&[&args[..], &["--proxy-from", "192.0.2.1"]].concat());
    assert_eq!(elsewhere.send("GET", "/api/v1/stats", &user, "").problem(), (401, "unauthorized".into()));
}

fn nobody_listens_beyond_this_machine_without_a_login(rig: &Rig) {
    let answer = rig.call(&["serve", "--listen", "0.0.0.0:0"]);
    assert_eq!(answer.status, Some(2), "{answer:?}");
    assert!(answer.error_line().contains("--token-file"), "{answer:?}");
    let file = rig.path("bad");
    std::fs::write(&file, "short viewer\n").unwrap();
    let answer = rig.call(&["serve", "--listen", "127.0.0.1:0", "--token-file", file.to_str().unwrap()]);
    assert_eq!(answer.status, Some(2), "{answer:?}");
    assert!(answer.error_line().contains("line 1") && !answer.err.contains("short viewer"), "{answer:?}");
    let tokens = rig.token_file();
    let mut server = rig.serve_at("0.0.0.0:0", &["--token-file", &tokens, "--public-metrics"]);
    assert_eq!(server.get("/metrics").status, 200);
    assert_eq!(server.get("/").status, 303);
    assert_eq!(server.as_role("viewer").get("/api/v1/stats").status, 200);
}

fn a_database_that_is_away_is_unavailable(rig: &Rig) {
    // Only there a case can take the database away and leave the server without one.
    if rig.engine != Engine::Postgres {
        return;
    }
    let server = rig.serve(&[]);
    assert_eq!(server.get("/healthz").status, 200);
    rig.drop_database();
    for said in
        [server.get("/api/v1/stats"), server.post("/api/v1/jobs", &json!({"queue": "q", "kind": "k"}))]
    {
        assert_eq!(said.problem(), (503, "unavailable".into()));
        assert_eq!(said.header("retry-after"), Some("1"));
    }
    assert_eq!(server.get("/healthz").status, 503);
    for path in ["/", "/queues/q", "/jobs?state=dead", "/dead", "/refused", "/jobs/1", "/search?q=k"] {
        let page = server.get(path);
        assert_eq!((page.status, page.header("retry-after")), (503, Some("1")), "{path}: {page:?}");
        assert!(page.header("content-type").unwrap().starts_with("text/html"), "{path}");
        assert!(page.text.contains("Not available right now") && page.text.contains("Try again"), "{path}");
    }
    assert!(server.get("/metrics").text.contains("\nturno_database_up 0.0\n"));
}

fn a_signal_ends_the_server_while_a_claim_waits(rig: &Rig) {
    let server = rig.serve(&[]);
    let pid = server.running.id();
    let body = json!({"queues": ["q"], "worker": "w", "wait_ms": 60_000});
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| server.post("/api/v1/claim", &body));
        until("the claim waits", || server.get("/metrics").text.contains("turno_http_claims_waiting 1\n"));
        signal(pid, rustix::process::Signal::TERM);
        let said = waiting.join().unwrap();
        assert_eq!((said.status, &said.json()["jobs"]), (200, &json!([])));
    });
    assert_eq!(server.running.answer().status, Some(143));
}
