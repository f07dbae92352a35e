//! Rights are EXECUTE on routines and nothing else (rule X2).

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts, OptsBuilder};
use turno_contract::{Backend, ClaimRequest, ErrorKind, NewJob};
use turno_mysql::MysqlBackend;

use crate::rig::{MysqlRig, servers};

const ROLES: [&str; 5] = ["producer", "worker", "scheduler", "operator", "viewer"];

/// A user with one role, which is active from the first.
async fn user_with(rig: &MysqlRig, owner: &mut Conn, server: &str, role: &str) -> String {
    let (user, role) = (format!("{}_u_{}", rig.schema(), &role[..3]), format!("{}_{role}", rig.schema()));
    let is_mariadb = rig.mysql().engine() == turno_contract::Engine::Mariadb;
    let word = if is_mariadb { "FOR" } else { "TO" };
    for sql in [
        format!("CREATE USER {user}@'127.0.0.1'"),
        format!("GRANT {role} TO {user}@'127.0.0.1'"),
        format!("SET DEFAULT ROLE {role} {word} {user}@'127.0.0.1'"),
    ] {
        owner.query_drop(sql).await.expect("a user with a role");
    }
    server.replacen("//root@", &format!("//{user}@"), 1)
}

async fn drop_users(rig: &MysqlRig, owner: &mut Conn, roles: &[&str]) {
    for role in roles {
        let user = format!("{}_u_{}", rig.schema(), &role[..3]);
        owner.query_drop(format!("DROP USER {user}@'127.0.0.1'")).await.expect("the user goes");
    }
}

/// Rule X2: with a role a routine can be called if the grants say so, and not otherwise.
#[tokio::test]
async fn each_role_calls_what_the_grants_say_and_nothing_else() {
    let grants = include_str!("../../sql/grants.txt");
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = rig.session().await;
        for role in ROLES {
            let url = user_with(&rig, &mut owner, &server, role).await.replacen("mariadb://", "mysql://", 1);
            let options = OptsBuilder::from_opts(Opts::from_url(&url).expect("a URL")).prefer_socket(false);
            let mut session = Conn::new(options).await.expect("the user connects");
            for line in grants.lines().filter(|line| !line.starts_with('#')) {
                let (routine, roles) = line.split_once(' ').expect("a routine and its roles");
                // Too many arguments: who may call it hears of that (1318), who may not of that (1370).
                let arguments = ["NULL"; 30].join(", ");
                let sql = rig.sql(&format!("CALL turno.`{routine}`({arguments})"));
                let may = roles.split_whitespace().any(|name| name == role);
                match session.query_drop(sql).await.expect_err("too many arguments") {
                    mysql_async::Error::Server(error) => {
                        assert_eq!(
                            error.code,
                            if may { 1318 } else { 1370 },
                            "{server} {role} {routine}: {error}"
                        );
                    }
                    other => panic!("{other}"),
                }
            }
            for sql in [
                "UPDATE turno.job SET priority = -1000",
                "SELECT token FROM turno.job",
                "CALL turno.raise_error(1, 'x')",
            ] {
                let denied = session.query_drop(rig.sql(sql)).await.expect_err("no right to it");
                assert!(denied.to_string().contains("denied"), "{server} {role} {sql}: {denied}");
            }
        }
        drop_users(&rig, &mut owner, &ROLES).await;
    }
}

/// Rules X2, E2.
#[tokio::test]
async fn a_producer_cannot_ask_for_a_priority_nor_claim() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = rig.session().await;
        let url = user_with(&rig, &mut owner, &server, "producer").await;
        let producer = MysqlBackend::connect(&format!("{url}?turno_schema={}", rig.schema()))
            .await
            .expect("it connects");
        producer.enqueue(&[NewJob::new("q", "k", "1")]).await.expect("it enqueues");
        let urgent = NewJob::new("q", "k", "1").priority(-5);
        for refused in [
            producer.enqueue(&[urgent]).await.map(drop),
            producer.claim(&ClaimRequest::one("q", "w")).await.map(drop),
        ] {
            assert_eq!(refused.expect_err("no right").kind(), ErrorKind::PermissionDenied, "{server}");
        }
        drop_users(&rig, &mut owner, &["producer"]).await;
    }
}

/// Rule X2: a session of MariaDB has one role at a time, so there is one that both enqueues and works.
#[tokio::test]
async fn the_combined_role_enqueues_and_works() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut owner = rig.session().await;
        let url = user_with(&rig, &mut owner, &server, "service").await;
        let service = MysqlBackend::connect(&format!("{url}?turno_schema={}", rig.schema()))
            .await
            .expect("it connects");
        service.enqueue(&[NewJob::new("q", "k", "1")]).await.expect("it enqueues");
        assert_eq!(service.claim(&ClaimRequest::one("q", "w")).await.expect("it claims").jobs.len(), 1);
        drop_users(&rig, &mut owner, &["service"]).await;
    }
}
