//! What operations cost must not depend on how much is stored. Buffers and loops are counted, never time.

use std::collections::HashMap;

use turno_conformance::Rig;

use crate::explain::Explainer;
use crate::rig::{PostgresRig, newer_server_url, server_url};

const TOKEN: &str = "11111111-1111-4111-8111-111111111111";

/// Tops the tables up: `n` ready and scheduled and finished jobs beside those that the operations work on.
async fn fill(rig: &PostgresRig, n: i64) {
    let sql = format!(
        "INSERT INTO turno.job (queue, kind, payload, state, rank, run_at, priority)
         SELECT 'q', 'k', '{{}}', 'ready', turno.rank_of(t.at, 0, NULL), t.at, 0
         FROM (SELECT clock_timestamp() - interval '1 hour' + g * interval '1 ms' AS at FROM generate_series(1, {n}) g) t
         WHERE (SELECT count(*) FROM turno.job WHERE state = 'ready' AND queue = 'q') < {n};
         INSERT INTO turno.job (queue, kind, payload, state, run_at)
         SELECT 'q', 'k', '{{}}', 'scheduled', clock_timestamp() + interval '1 hour' + g * interval '1 ms'
         FROM generate_series(1, {n}) g;
         INSERT INTO turno.finished_job (id, queue, kind, outcome, payload, priority, attempt, failures, max_attempts, max_run_ms,
             operation_id, verb, charged, claimed_at, run_at, first_due_at, created_at, finished_at)
         SELECT nextval('turno.job_id'), 'q', 'k', CASE WHEN g % 1000 = 0 THEN 'dead' ELSE 'succeeded' END, '{{}}', 0, 1, 0, 20, 1000,
             gen_random_uuid(), 'complete', false, t.at, t.at, t.at, t.at, t.at
         FROM generate_series(1, {n}) g,
             LATERAL (SELECT clock_timestamp() - interval '2 hours' + g * interval '1 ms' AS at) t;"
    );
    rig.owner().await.batch_execute(&sql).await.expect("rows");
}

/// A hundred jobs each that are running, expired, and due for promotion, in queues of their own.
async fn prepare(rig: &PostgresRig) -> String {
    let sql = format!(
        "INSERT INTO turno.job (queue, kind, payload, state, rank, run_at)
         SELECT q, 'k', '{{}}', 'ready', g, clock_timestamp() FROM generate_series(1, 100) g, unnest(ARRAY['running', 'expired']) q;
         SELECT count(*) FROM turno.claim(ARRAY['running'], 'w', 100, 86400000, '{TOKEN}');
         SELECT count(*) FROM turno.claim(ARRAY['expired'], 'w', 100, 86400000, gen_random_uuid());
         UPDATE turno.job SET lease_until = clock_timestamp() - interval '1 minute' WHERE queue = 'expired';
         INSERT INTO turno.job (queue, kind, payload, state, run_at)
         SELECT 'due', 'k', '{{}}', 'scheduled', clock_timestamp() - interval '1 second' FROM generate_series(1, 100) g;"
    );
    // One by one: several statements in one message are one transaction, which a claim refuses to join.
    for statement in sql.split(';') {
        rig.owner().await.batch_execute(statement).await.expect("jobs to work on");
    }
    let sql = format!(
        "SELECT format('ARRAY[%s]::bigint[], array_fill(1::bigint, ARRAY[100]), array_fill(''{TOKEN}''::uuid, ARRAY[100])',
                       string_agg(id::text, ', ')) FROM turno.job WHERE token = '{TOKEN}'"
    );
    rig.owner().await.query_one(&sql, &[]).await.expect("the proofs").get(0)
}

async fn check_plans(server: &str) {
    let rig = PostgresRig::on(server).await;
    // The tables of a busy queue are analysed at any moment or never: both must do.
    let off = "ALTER TABLE turno.job SET (autovacuum_enabled = off); ALTER TABLE turno.finished_job SET (autovacuum_enabled = off)";
    rig.owner().await.batch_execute(off).await.unwrap();
    let proofs = prepare(&rig).await;
    let operations = [
        (
            "claim",
            "SELECT * FROM turno.claim(ARRAY['q'], 'w', LIMIT, 30000, gen_random_uuid())".to_owned(),
            60,
        ),
        ("complete", format!("SELECT * FROM turno.complete_many({proofs})"), 60),
        ("heartbeat", format!("SELECT * FROM turno.heartbeat({proofs}, 30000)"), 40),
        ("reap", "SELECT * FROM turno.reap(100)".to_owned(), 120),
        ("promote", "SELECT turno.promote(ARRAY['due'], 100)".to_owned(), 60),
        ("jobs", "SELECT * FROM turno.jobs('dead', p_limit => 100)".to_owned(), 60),
    ];
    let mut buffers: HashMap<(&str, i64), i64> = HashMap::new();
    for n in [10, 10_000, 1_000_000] {
        fill(&rig, n).await;
        for analysed in [false, true] {
            if analysed {
                rig.owner()
                    .await
                    .batch_execute("ANALYZE turno.job; ANALYZE turno.finished_job")
                    .await
                    .unwrap();
            }
            // A session of its own: the plans of a session that knew smaller tables must not help.
            let mut explainer = Explainer::new(&rig.url()).await;
            for (operation, sql, per_job_max) in &operations {
                // No more than there are: a claim that comes back short reaps as well.
                let sql = sql.replace("LIMIT", &n.min(100).to_string());
                // The first call of a session reads the catalogue as well.
                explainer.explain(&sql).await;
                let explained = explainer.explain(&sql).await;
                let at = format!("{operation} at {n} rows, analysed {analysed}, {server}");
                let jobs = explained.rows.clamp(10, 100);
                assert!(explained.nodes.len() > 2, "{at}: auto_explain told nothing");
                assert!(explained.sequential_scans().is_empty(), "{at}: {:?}", explained.sequential_scans());
                // Settles and heartbeats look each of their rows up by itself, on purpose.
                let once = explained.lock_loops().iter().all(|&loops| loops <= 1);
                assert!(
                    once || ["complete", "heartbeat"].contains(operation),
                    "{at}: {:?}",
                    explained.lock_loops()
                );
                assert!(*operation != "claim" || !explained.sorts_of_the_claim(), "{at}: the claim sorts");
                assert!(
                    explained.buffers <= per_job_max * if *operation == "promote" { 100 } else { jobs } + 400,
                    "{at}: {} buffers for {jobs} jobs",
                    explained.buffers
                );
                let most = buffers.entry((operation, n)).or_default();
                *most = (explained.buffers * 100 / jobs).max(*most);
            }
            check_stats(&mut explainer, n, server).await;
            check_searches(&mut explainer, n, server).await;
        }
    }
    for (operation, _, _) in &operations {
        let (small, large) = (buffers[&(*operation, 10_000)], buffers[&(*operation, 1_000_000)]);
        println!("{operation}: {small} buffers for 100 rows of 10,000, {large} of 1,000,000");
        assert!(large <= small * 2, "{operation}: {small} buffers at 10,000 rows and {large} at 1,000,000");
    }
}

/// `stats` counts to its cap and no further.
async fn check_stats(explainer: &mut Explainer, n: i64, server: &str) {
    for sql in ["SELECT * FROM turno.stats()", "SELECT * FROM turno.stats(315360000000)"] {
        let explained = explainer.explain(sql).await;
        assert!(
            explained.sequential_scans().is_empty(),
            "stats at {n}, {server}: {:?}",
            explained.sequential_scans()
        );
        assert!(explained.buffers <= 60_000, "stats at {n}, {server}: {} buffers", explained.buffers);
    }
}

/// A search for what is not there looks at ten thousand jobs and no further; one by a key, at nothing else.
async fn check_searches(explainer: &mut Explainer, n: i64, server: &str) {
    for (sql, most) in [
        ("SELECT * FROM turno.jobs('succeeded', p_kind => 'none')", 25_000),
        ("SELECT * FROM turno.jobs('succeeded', 'none')", 25_000),
        ("SELECT * FROM turno.jobs('succeeded', 'q', 'none')", 50_000),
        ("SELECT * FROM turno.jobs('dead', 'q', 'none')", 50_000),
        ("SELECT * FROM turno.jobs('ready', p_kind => 'none')", 50_000),
        ("SELECT * FROM turno.jobs('scheduled', 'none', 'none')", 25_000),
        ("SELECT * FROM turno.jobs('running', 'none')", 25_000),
        ("SELECT * FROM turno.find('none')", 300),
        ("SELECT * FROM turno.find('none', 'q')", 100),
    ] {
        let explained = explainer.explain(sql).await;
        let at = format!("{sql} at {n}, {server}");
        assert!(explained.sequential_scans().is_empty(), "{at}: {:?}", explained.sequential_scans());
        assert!(explained.buffers <= most, "{at}: {} buffers", explained.buffers);
    }
}

/// Rule V6. Jobs that did not succeed are looked through in an index: each row of theirs lies on a page of its own between
/// successes.
#[tokio::test]
async fn dead_jobs_are_searched_without_reading_them() {
    let rig = PostgresRig::new().await;
    fill(&rig, 12_000).await;
    rig.execute("UPDATE turno.finished_job SET outcome = 'dead' WHERE outcome = 'succeeded'").await.unwrap();
    rig.execute("VACUUM ANALYZE turno.finished_job").await.unwrap();
    let mut explainer = Explainer::new(&rig.url()).await;
    for sql in [
        "SELECT * FROM turno.jobs('dead', 'q', 'none')",
        "SELECT * FROM turno.jobs('dead', p_kind => 'none')",
    ] {
        let explained = explainer.explain(sql).await;
        assert!(explained.buffers <= 2_000, "{sql}: {} buffers", explained.buffers);
    }
}

/// Rules C1, C6, V1, V6, V7. B27, B64: bounded buffers, the locking scan once, no sequential scan, at any size.
#[tokio::test]
async fn operations_cost_the_same_at_any_size() {
    check_plans(&server_url()).await;
}

/// The same on the newer server, whose planner differs.
#[tokio::test]
async fn operations_cost_the_same_at_any_size_on_a_newer_server() {
    match newer_server_url() {
        Some(url) => check_plans(&url).await,
        None => println!("newer PostgreSQL: not run (TURNO_TEST_POSTGRES18_URL is not set)"),
    }
}

/// Rule C1. B27: whatever the session's planner settings, a claim takes no more than its limit.
#[tokio::test]
async fn planner_settings_of_the_session_do_not_matter() {
    let rig = PostgresRig::new().await;
    fill(&rig, 2000).await;
    let client = rig.owner().await;
    let settings = ["nestloop", "hashjoin", "mergejoin", "material", "indexscan"];
    for (i, setting) in settings.iter().enumerate() {
        for cache in ["force_generic_plan", "force_custom_plan"] {
            let set = format!("SET enable_{setting} = off; SET plan_cache_mode = {cache}");
            client.batch_execute(&set).await.unwrap();
            for limit in [1, 10] {
                for _ in 0..10 {
                    let before =
                        rig.scalar("SELECT count(*) FROM turno.job WHERE state = 'running'").await.unwrap();
                    let sql = format!(
                        "SELECT count(*) FROM turno.claim(ARRAY['q'], 'w', {limit}, 60000, gen_random_uuid())"
                    );
                    let returned = rig.scalar(&sql).await.unwrap();
                    let after =
                        rig.scalar("SELECT count(*) FROM turno.job WHERE state = 'running'").await.unwrap();
                    assert_eq!((returned, after - before), (limit, limit), "{i}: {setting} off, {cache}");
                }
            }
        }
        client.batch_execute("RESET ALL").await.unwrap();
        rig.execute("UPDATE turno.job SET lease_until = clock_timestamp() - interval '1 s'")
            .await
            .unwrap_or_default();
        rig.execute("DELETE FROM turno.job WHERE state = 'running'").await.unwrap();
    }
}

/// Rule H1, B27. A session that planned while the table was empty, which is how an idle worker begins, keeps that plan when
/// the table has grown.
#[tokio::test]
async fn plans_made_on_an_empty_table_stay_good() {
    let rig = PostgresRig::new().await;
    let off = "ALTER TABLE turno.job SET (autovacuum_enabled = off)";
    rig.owner().await.batch_execute(off).await.unwrap();
    fill(&rig, 100).await;
    rig.execute("DELETE FROM turno.job").await.unwrap();
    rig.execute("VACUUM turno.job").await.unwrap();
    let mut explainer = Explainer::new(&rig.url()).await;
    let nothing = "ARRAY[1]::bigint[], ARRAY[1]::bigint[], ARRAY[gen_random_uuid()]";
    for _ in 0..7 {
        for sql in [
            "SELECT turno.complete_many(@)",
            "SELECT turno.heartbeat(@, 1000)",
            "SELECT turno.fail_many(@, NULL)",
        ] {
            explainer.client.query(&sql.replace('@', nothing), &[]).await.unwrap();
        }
        let sql = "SELECT turno.enqueue('keyed', 'k', '1', p_unique_key => 'u', p_idempotency_key => gen_random_uuid()::text)";
        explainer.client.query(sql, &[]).await.unwrap();
    }
    fill(&rig, 20_000).await;
    let proofs = prepare(&rig).await;
    for sql in [
        format!("SELECT * FROM turno.complete_many({proofs})"),
        format!("SELECT * FROM turno.heartbeat({proofs}, 30000)"),
        format!("SELECT * FROM turno.fail_many({proofs}, array_fill('e'::text, ARRAY[100]))"),
        "SELECT * FROM turno.enqueue('keyed', 'k', '1', p_unique_key => 'u', p_idempotency_key => 'i')"
            .to_owned(),
    ] {
        explainer.explain(&sql).await;
        let explained = explainer.explain(&sql).await;
        assert!(explained.sequential_scans().is_empty(), "{sql}: {:?}", explained.sequential_scans());
        assert!(explained.buffers < 12_000, "{sql}: {} buffers", explained.buffers);
    }
}

/// Rule C1. A claim looks for what its token holds, and reads nobody else's running jobs for that: a session that planned while
/// hardly anything ran once took the index of lease ends for it and read them all.
#[tokio::test]
async fn running_jobs_of_others_cost_a_claim_nothing() {
    let rig = PostgresRig::new().await;
    let off = "ALTER TABLE turno.job SET (autovacuum_enabled = off)";
    rig.owner().await.batch_execute(off).await.unwrap();
    fill(&rig, 100).await;
    rig.owner().await.batch_execute("VACUUM ANALYZE turno.job").await.unwrap();
    let calls = [
        "SELECT * FROM turno.claim(ARRAY['nothing'], 'w', 1, 30000, gen_random_uuid())",
        "SELECT * FROM turno.claim(ARRAY['q'], 'w', 1, 30000, gen_random_uuid())",
        "SELECT * FROM turno.held(gen_random_uuid())",
        "SELECT * FROM turno.reap(100)",
    ];
    let mut explainer = Explainer::new(&rig.url()).await;
    for sql in calls {
        explainer.client.query(sql, &[]).await.unwrap();
    }
    rig.execute(
        "INSERT INTO turno.job (queue, kind, payload, state, rank, attempt, token, worker, claimed_at, lease_until, run_until)
         SELECT 'others', 'k', '1', 'running', g, 1, gen_random_uuid(), 'other', clock_timestamp(),
                clock_timestamp() + interval '1 hour', clock_timestamp() + interval '2 hours'
         FROM generate_series(1, 10000) g",
    )
    .await
    .unwrap();
    for sql in calls {
        let explained = explainer.explain(sql).await;
        assert!(explained.buffers < 500, "{sql}: {} buffers", explained.buffers);
    }
}
