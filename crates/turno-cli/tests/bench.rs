//! `turno bench` with tiny sizes: that it answers with figures and leaves nothing behind. How fast anything is, no test
//! says.

mod common;

use common::Turno;

const TINY: [&str; 13] = [
    "--jobs",
    "300",
    "--rounds",
    "1",
    "--deep",
    "600",
    "--held",
    "600",
    "--wakes",
    "2",
    "--running",
    "20",
    "--watch=200ms",
];

fn figures(turno: &Turno, workloads: &[&str]) -> Vec<serde_json::Value> {
    let documents = turno.json(&[&["bench"], workloads, &TINY[..]].concat());
    assert!(documents[0]["server"].is_string(), "{documents:?}");
    documents[1..].to_vec()
}

#[test]
fn every_workload_answers_with_figures() {
    let turno = Turno::new();
    let figures = figures(&turno, &[]);
    for workload in ["W1", "W2", "W3", "W4", "W5", "W6", "W7", "mix"] {
        let of_it: Vec<_> = figures.iter().filter(|figure| figure["workload"] == workload).collect();
        assert!(!of_it.is_empty(), "{workload} says nothing: {figures:?}");
        for figure in of_it {
            let skipped = workload == "W4" && figure["skipped"].is_string();
            let value = figure["value"].as_f64();
            assert!(skipped || value.is_some_and(|value| value.is_finite() && value >= 0.0), "{figure}");
        }
    }
    let compared = ["W1", "W2", "W3", "W5", "mix"];
    for figure in figures.iter().filter(|figure| compared.contains(&figure["workload"].as_str().unwrap())) {
        assert!(figure["floor"]["value"].as_f64().unwrap() > 0.0, "{figure}");
        assert!(figure["ratio"].as_f64().unwrap() > 0.0, "{figure}");
    }
}

#[test]
fn a_benchmark_leaves_nothing_and_touches_nothing_else() {
    let turno = Turno::new();
    let id = turno.enqueue("mail", &[]);
    figures(&turno, &["w1", "w2", "mix"]);
    let queues = turno.json(&["queue", "list"]);
    assert!(queues.iter().all(|queue| !queue.to_string().contains("turno-bench")), "{queues:?}");
    assert_eq!(turno.state(&id), "ready");
    let files: Vec<String> = std::fs::read_dir(turno.path("."))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| !name.starts_with("jobs.db"))
        .collect();
    assert!(files.is_empty(), "{files:?}");
}

#[test]
fn without_a_schema_it_says_so() {
    let turno = Turno::without_schema();
    turno.sql("SELECT 1");
    assert_eq!(turno.call(&["bench", "W1"]).status, Some(6));
}
