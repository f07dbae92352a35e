//! What every statement does to find its rows: seeks only, at any size, except where a file says otherwise. Refuses a new
//! statement whose scan nobody has thought about.

use std::collections::BTreeMap;

use turno_contract::{Backend, ClaimRequest, Completion, NewJob};

use super::backend;
use crate::SqliteBackend;
use crate::error::of_engine;
use crate::lanes::Class;
use crate::statements;

/// What may read a whole table, and why.
const SCANS: &[(&str, &str)] = &[
    ("audit.", "an audit reads everything"),
    ("jobs.few_running", "an index of the running jobs alone, and no more than ten thousand of them"),
    ("queue_list.list", "one row per queue"),
    ("schema_version.", "one row per schema file"),
    ("stats.queues", "running jobs are few, and have an index of their own"),
    ("stats.running", "the same"),
];

/// What the plans call rows that are in no table: parts of the same statement, and the list that a caller gave.
const NO_TABLES: &[&str] =
    &["CONSTANT", "names", "settings", "ready", "scheduled", "finished", "first_of", "f", "e", "q", "s"];

/// What may sort, and why.
const SORTS: &[(&str, &str)] = &[
    ("audit.", "an audit reads everything"),
    ("attempts.list", "at most 200 rows"),
    ("held.list", "at most one claim's jobs"),
    ("stats.queues", "names of queues"),
    ("stats.running", "names of queues"),
    ("unhandled.kinds", "kinds of at most 10,000 jobs"),
];

/// Rules C1, C3, V1. B67.
#[tokio::test]
async fn every_statement_seeks_whether_the_tables_are_empty_full_or_analyzed() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    let empty = plans_of(&backend).await;
    check(&empty);
    fill(&backend).await;
    check(&plans_of(&backend).await);
    let analyze = |work: &crate::work::Work| work.connection().execute_batch("ANALYZE").map_err(of_engine);
    backend.lanes().write(Class::Ordinary, analyze).await.unwrap();
    check(&plans_of(&backend).await);
}

/// Rule C3: the index has exactly the claim's order.
#[tokio::test]
async fn a_claim_reads_the_front_of_the_ready_index() {
    let folder = tempfile::tempdir().unwrap();
    let backend = backend(&folder).await;
    for _ in 0..2 {
        let plan = plans_of(&backend).await["claim.take"].join("\n");
        let seek = "SEARCH best USING COVERING INDEX turno_job_ready (queue=? AND rank>?)";
        assert!(plan.contains(seek) && !plan.contains("TEMP B-TREE"), "{plan}");
        fill(&backend).await;
    }
}

/// Jobs in every state, most of them ready.
async fn fill(backend: &SqliteBackend) {
    let later = time::OffsetDateTime::now_utc() + time::Duration::days(1);
    let jobs: Vec<NewJob> = (0..3000)
        .map(|n| NewJob::new(format!("q{}", n % 3), "k", "{}").priority(n % 7))
        .map(|job| if job.priority == Some(6) { job.run_at(later) } else { job })
        .collect();
    backend.enqueue(&jobs).await.unwrap();
    let claimed = backend.claim(&ClaimRequest::one("q1", "w").limit(200)).await.unwrap().jobs;
    let completions: Vec<Completion> =
        claimed[50..].iter().map(|job| Completion { proof: job.proof, result: None }).collect();
    backend.complete("w", &completions).await.unwrap();
}

fn check(plans: &BTreeMap<String, Vec<String>>) {
    let listed = |list: &[(&str, &str)], name: &str| list.iter().any(|(start, _)| name.starts_with(start));
    for (name, plan) in plans {
        let plan = plan.join("\n  ");
        if !listed(SCANS, name) {
            let scanned = plan.lines().filter_map(|line| line.trim().strip_prefix("SCAN ")).find(|scanned| {
                let what = scanned.split(' ').next().unwrap_or_default();
                !(NO_TABLES.contains(&what) || what.starts_with("(subquery"))
            });
            assert_eq!(scanned, None, "{name}:\n  {plan}");
        }
        if !listed(SORTS, name) {
            assert!(!plan.contains("TEMP B-TREE"), "{name} sorts:\n  {plan}");
        }
    }
}

/// The plan of every statement, by its name.
async fn plans_of(backend: &SqliteBackend) -> BTreeMap<String, Vec<String>> {
    let plans = backend.lanes().write(Class::Ordinary, |work| {
        let mut plans = BTreeMap::new();
        for name in statements::names() {
            let sql = format!("EXPLAIN QUERY PLAN {}", statements::text(&name));
            let mut statement = work.connection().prepare(&sql).map_err(of_engine)?;
            let mut rows = statement.raw_query();
            let plan: &mut Vec<String> = plans.entry(name).or_default();
            while let Some(row) = rows.next().map_err(of_engine)? {
                plan.push(row.get(3).map_err(of_engine)?);
            }
        }
        Ok(plans)
    });
    plans.await.unwrap()
}
