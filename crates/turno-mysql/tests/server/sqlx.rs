//! The caller's own transaction when it is sqlx's.

use sqlx::Connection as _;
use sqlx::mysql::MySqlConnection;
use turno_contract::{Backend, ClaimRequest, Completion, ErrorKind, NewJob, Proof, SettledStatus, Token};

use crate::rig::{MysqlRig, servers};

async fn connection(server: &str) -> MySqlConnection {
    let url = server.replacen("mariadb://", "mysql://", 1);
    MySqlConnection::connect(&url).await.expect("a connection of sqlx")
}

/// Rule E1.
#[tokio::test]
async fn an_enqueue_in_sqlx_commits_and_rolls_back_with_it() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        let mut connection = connection(&server).await;
        let job = NewJob::new("q", "k", "{\"a\":\"\\u0000é\"}").priority(-3).max_attempts(2);
        let mut transaction = connection.begin().await.expect("begin");
        rig.mysql().enqueue_in_sqlx(&mut transaction, &job).await.expect("enqueue");
        transaction.rollback().await.expect("rollback");
        let request = ClaimRequest::one("q", "w");
        assert!(rig.mysql().claim(&request).await.expect("claim").jobs.is_empty(), "{server}");
        let mut transaction = connection.begin().await.expect("begin");
        let answer = rig.mysql().enqueue_in_sqlx(&mut transaction, &job).await.expect("enqueue");
        assert!(answer.created, "{server}");
        transaction.commit().await.expect("commit");
        let claimed = rig.mysql().claim(&ClaimRequest::one("q", "w")).await.expect("claim").jobs.remove(0);
        let seen = (claimed.proof.job, claimed.priority, claimed.max_attempts, claimed.payload);
        assert_eq!(seen, (answer.id, -3, 2, job.payload), "{server}");
    }
}

/// Rule S5: effects and completion are one, and a refusal takes the effects with it.
#[tokio::test]
async fn a_completion_in_sqlx_is_accepted_once_and_refused_to_a_thief() {
    for server in servers() {
        let rig = MysqlRig::on(&server).await;
        rig.mysql().enqueue(&[NewJob::new("q", "k", "1")]).await.expect("enqueue");
        let proof = rig.mysql().claim(&ClaimRequest::one("q", "w")).await.expect("claim").jobs[0].proof;
        let mut connection = connection(&server).await;
        let mut transaction = connection.begin().await.expect("begin");
        let stolen = Completion { proof: Proof { token: Token::random(), ..proof }, result: None };
        let refused = rig.mysql().complete_in_sqlx(&mut transaction, "w", &stolen).await;
        let error = refused.expect_err("a refusal");
        assert_eq!(error.kind(), ErrorKind::LeaseLost, "{server}: {error}");
        transaction.rollback().await.expect("rollback");
        let done = Completion { proof, result: Some("[1]".into()) };
        for status in [SettledStatus::Done, SettledStatus::Already] {
            let mut transaction = connection.begin().await.expect("begin");
            let answer = rig.mysql().complete_in_sqlx(&mut transaction, "w", &done).await.expect("complete");
            assert_eq!(answer.status, status, "{server}");
            transaction.commit().await.expect("commit");
        }
    }
}
