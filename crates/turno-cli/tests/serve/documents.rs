//! What is written about the metrics is true: every metric is in docs/operating.md, and the dashboard and the alerts use
//! no metric that does not exist.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use crate::common::Running;
use crate::rig::{Engine, Rig, Server};

/// The whole test.
pub fn every_metric_is_described_and_only_these_are_used() {
    let rig = Rig::new(Engine::Sqlite);
    let known = known_metrics(&rig);
    assert!(known.len() > 30, "the scrapes were not understood: {known:?}");
    let page = read("docs/operating.md");
    let described = words(&page);
    let missing: Vec<&String> = known.difference(&described).collect();
    assert!(missing.is_empty(), "docs/operating.md does not describe {missing:?}");
    for file in ["docs/operating.md", "deploy/grafana.json", "deploy/alerts.yml"] {
        let text = read(file);
        let used = words(&text).into_iter().map(|word| family(&word, &known));
        let strange: BTreeSet<String> =
            used.filter(|name| !known.contains(name) && !is_no_metric(name)).collect();
        assert!(strange.is_empty(), "{file} uses {strange:?}, which nobody exposes");
    }
    let dashboard: serde_json::Value = serde_json::from_str(&read("deploy/grafana.json")).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() > 10);
}

/// The names on the lines `# TYPE` of a worker and of a server.
fn known_metrics(rig: &Rig) -> BTreeSet<String> {
    let mut command = rig.command(&["work", "--queue", "q", "--kind", "k=true", "--metrics", "127.0.0.1:0"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running::start(command);
    let mut line = String::new();
    BufReader::new(running.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let url = line.trim().trim_start_matches("turno: metrics at ").trim_end_matches("/metrics").to_owned();
    let worker = Server { url, running, token: None, cookie: None };
    let texts = [worker.get("/metrics").text, rig.serve(&[]).get("/metrics").text];
    let lines = texts.iter().flat_map(|text| text.lines());
    lines.filter_map(|line| line.strip_prefix("# TYPE ")?.split(' ').next().map(str::to_owned)).collect()
}

fn read(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    std::fs::read_to_string(root.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// Every word of a text that could be a metric's name.
fn words(text: &str) -> BTreeSet<String> {
    let is_part = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let words = text.split(|c: char| !is_part(c)).filter(|word| word.starts_with("turno_"));
    words.map(str::to_owned).collect()
}

/// The histogram that a series belongs to.
fn family(word: &str, known: &BTreeSet<String>) -> String {
    let parts = ["_bucket", "_sum", "_count"].into_iter().filter_map(|part| word.strip_suffix(part));
    parts.into_iter().find(|name| known.contains(*name)).unwrap_or(word).to_owned()
}

/// Roles, parameters of URLs and the cookie begin like a metric.
fn is_no_metric(name: &str) -> bool {
    const OTHERS: [&str; 12] = [
        "turno_producer",
        "turno_worker",
        "turno_scheduler",
        "turno_operator",
        "turno_viewer",
        "turno_service",
        "turno_admin",
        "turno_schema",
        "turno_listen",
        "turno_prepared",
        "turno_payload_bytes_max",
        "turno_session",
    ];
    OTHERS.contains(&name)
}
