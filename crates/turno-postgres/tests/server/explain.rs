//! Plans of the statements inside routines, as the server's auto_explain tells them.

use serde_json::Value;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// A session that reports the plan of every statement that it runs, also of those inside routines.
pub struct Explainer {
    pub client: Client,
    plans: UnboundedReceiver<String>,
}

/// What one call did.
pub struct Explained {
    /// Buffers that the whole call touched.
    pub buffers: i64,
    /// Rows that the call answered.
    pub rows: i64,
    /// Every node of every plan.
    pub nodes: Vec<Value>,
}

impl Explainer {
    pub async fn new(url: &str) -> Self {
        let (client, mut connection) = tokio_postgres::connect(url, NoTls).await.expect("a session");
        let (sender, plans) = unbounded_channel();
        tokio::spawn(async move {
            while let Some(Ok(message)) =
                std::future::poll_fn(|context| connection.poll_message(context)).await
            {
                if let AsyncMessage::Notice(notice) = message {
                    let _ = sender.send(notice.message().to_owned());
                }
            }
        });
        let set = "LOAD 'auto_explain'; SET auto_explain.log_min_duration = 0; SET auto_explain.log_analyze = on; \
                   SET auto_explain.log_buffers = on; SET auto_explain.log_timing = off; \
                   SET auto_explain.log_nested_statements = on; SET auto_explain.log_format = json; \
                   SET client_min_messages = log";
        client.batch_execute(set).await.expect("auto_explain is there");
        Explainer { client, plans }
    }

    /// Runs a call inside a transaction that is rolled back.
    pub async fn explain(&mut self, sql: &str) -> Explained {
        while self.plans.try_recv().is_ok() {}
        self.client.batch_execute("BEGIN").await.unwrap();
        let row = self
            .client
            .query_one(&format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {sql}"), &[])
            .await
            .unwrap_or_else(|error| panic!("{sql}: {error:?}"));
        self.client.batch_execute("ROLLBACK").await.unwrap();
        let outer: Value = row.get(0);
        let plan = &outer[0]["Plan"];
        let number = |name: &str| plan[name].as_f64().unwrap_or(0.0) as i64;
        let mut explained = Explained {
            buffers: number("Shared Hit Blocks") + number("Shared Read Blocks"),
            rows: number("Actual Rows"),
            nodes: Vec::new(),
        };
        while let Ok(text) = self.plans.try_recv() {
            let Some(start) = text.find('{') else { continue };
            let inner: Value = serde_json::from_str(&text[start..]).expect("auto_explain writes JSON");
            collect(&inner["Plan"], &mut explained.nodes);
        }
        explained
    }
}

fn collect(plan: &Value, nodes: &mut Vec<Value>) {
    nodes.push(plan.clone());
    for child in plan["Plans"].as_array().into_iter().flatten() {
        collect(child, nodes);
    }
}

impl Explained {
    /// Names of big tables that were read from end to end.
    pub fn sequential_scans(&self) -> Vec<&str> {
        let big = ["job", "finished_job", "attempt"];
        let scans = self.nodes.iter().filter(|node| node["Node Type"] == "Seq Scan");
        scans.filter_map(|node| node["Relation Name"].as_str()).filter(|name| big.contains(name)).collect()
    }

    /// How often each locking scan ran.
    pub fn lock_loops(&self) -> Vec<i64> {
        let locks = self.nodes.iter().filter(|node| node["Node Type"] == "LockRows");
        locks.map(|node| node["Actual Loops"].as_f64().unwrap_or(0.0) as i64).collect()
    }

    /// Nodes that sort, except of what a routine has in memory.
    pub fn sorts_of_the_claim(&self) -> bool {
        self.nodes.iter().any(|node| {
            let under = node["Plans"].as_array();
            node["Node Type"] == "LockRows"
                && under.is_some_and(|plans| plans.iter().any(|plan| plan["Node Type"] == "Sort"))
        })
    }
}
