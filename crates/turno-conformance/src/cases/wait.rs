//! Wait and the doorbell: a sleeper is told that there may be work.

use std::time::Duration;

use turno_contract::ErrorKind;

use crate::Kit;
use crate::kit::{PATIENCE, refused_as};

super::cases! {
    Nothing: [
        an_enqueue_rings_while_somebody_waits,
        a_job_that_a_callers_transaction_committed_rings,
        waiting_has_limits,
    ],
}

/// Rule W2. A ring may be lost, so the case enqueues again until one is heard.
async fn an_enqueue_rings_while_somebody_waits(kit: Kit) {
    let mut doorbell = kit.backend().doorbell();
    let names = [kit.queue().to_owned()];
    kit.backend().wait(&names, PATIENCE).await.unwrap();
    let heard = async {
        doorbell.borrow_and_update();
        loop {
            kit.enqueue_one().await;
            if tokio::time::timeout(Duration::from_secs(2), doorbell.changed()).await.is_ok() {
                return;
            }
        }
    };
    crate::kit::within("a ring", heard).await;
    assert!(!kit.claim_n(10).await.is_empty());
}

/// Rules W2, E1.
async fn a_job_that_a_callers_transaction_committed_rings(kit: Kit) {
    let mut doorbell = kit.backend().doorbell();
    let names = [kit.queue().to_owned()];
    kit.backend().wait(&names, PATIENCE).await.unwrap();
    let heard = async {
        doorbell.borrow_and_update();
        loop {
            let mut transaction = kit.begin().await;
            transaction.enqueue(&kit.new_job()).await.unwrap();
            transaction.commit().await.unwrap();
            if tokio::time::timeout(Duration::from_secs(2), doorbell.changed()).await.is_ok() {
                return;
            }
        }
    };
    crate::kit::within("a ring", heard).await;
    assert!(!kit.claim_n(10).await.is_empty());
}

/// Rules W2, E9.
async fn waiting_has_limits(kit: Kit) {
    let backend = kit.backend();
    refused_as(backend.wait(&["".to_owned()], Duration::from_secs(1)).await, ErrorKind::InvalidArgument);
    if let Err(error) = backend.wait(&[kit.queue().to_owned()], Duration::MAX).await {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "an endless wait is cut or refused");
    }
    for _ in 0..3 {
        backend.wait(&[kit.queue().to_owned(), "x".to_owned()], Duration::from_secs(1)).await.unwrap();
    }
}
