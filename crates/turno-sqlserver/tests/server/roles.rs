//! Rights are EXECUTE on procedures and nothing else; ownership chaining does the rest (rule X2).

use crate::rig::{SqlServerRig, run};

/// Rules X2, O6.
pub async fn each_role_calls_what_the_grants_say_and_nothing_else(rig: SqlServerRig) {
    let grants = include_str!("../../sql/grants.txt");
    let mut owner = rig.session().await;
    for role in ["producer", "worker", "scheduler", "operator", "viewer"] {
        let (user, role_name) = (format!("{}_u_{role}", rig.schema()), format!("{}_{role}", rig.schema()));
        for sql in [
            format!("CREATE USER {user} WITHOUT LOGIN"),
            format!("ALTER ROLE {role_name} ADD MEMBER {user}"),
            format!("EXECUTE AS USER = '{user}'"),
        ] {
            run(&mut owner, &sql).await.expect("a user with a role");
        }
        for line in grants.lines().filter(|line| !line.starts_with('#')) {
            let (routine, roles) = line.split_once(' ').expect("a routine and its roles");
            // Too many arguments: who may call it hears of that, who may not of that.
            let sql = rig.sql(&format!("EXEC turno.{routine} {}", ["NULL"; 30].join(", ")));
            let error = run(&mut owner, &sql).await.expect_err("too many arguments");
            let may = roles.split_whitespace().any(|name| name == role);
            assert_eq!(error.contains("permission was denied"), !may, "{role} {routine}: {error}");
        }
        for sql in [
            "UPDATE turno.unfinished_job SET priority = -1000",
            "SELECT token FROM turno.unfinished_job",
            "SELECT NEXT VALUE FOR turno.job_id",
            "EXEC turno.key_lock N'u', 0x, 0x",
            "SELECT queue FROM turno.queue_settings(0x)",
        ] {
            let error = run(&mut owner, &rig.sql(sql)).await.expect_err("no right to it");
            assert!(error.contains("denied"), "{role} {sql}: {error}");
        }
        let works = match role {
            "producer" | "operator" => {
                "EXEC turno.enqueue N'q', N'k', N'1', @unique_key = N'u', @idempotency_key = N'i'"
            }
            "scheduler" => "EXEC turno.enqueue_prioritized N'q', N'k', N'1', -5",
            "worker" => "EXEC turno.claim N'[\"q\"]', N'w', 1, 1000, '11111111-1111-1111-1111-111111111111'",
            _ => "EXEC turno.stats 1000",
        };
        run(&mut owner, &rig.sql(works)).await.unwrap_or_else(|error| panic!("{role}: {error}"));
        for sql in ["REVERT".to_owned(), format!("DROP USER {user}")] {
            run(&mut owner, &sql).await.expect("the user goes");
        }
    }
}
