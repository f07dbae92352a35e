//! What only SQL Server has: isolation levels of the session, doomed transactions, implicit ones, SET options, locks and plans.
//! Without TURNO_TEST_SQLSERVER_URL every test here is reported as ignored.

mod rig;

#[path = "server/callers.rs"]
mod callers;
#[path = "server/locks.rs"]
mod locks;
#[path = "server/roles.rs"]
mod roles;

use std::pin::Pin;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use turno_sqlserver::Connection;

use crate::rig::SqlServerRig;

/// A test in an installation of its own.
type Test = fn(SqlServerRig) -> Pin<Box<dyn Future<Output = ()> + Send>>;

macro_rules! tests {
    ($($module:ident::$name:ident)+) => {
        vec![$((stringify!($name), (|rig| Box::pin($module::$name(rig))) as Test)),+]
    };
}

fn main() -> ExitCode {
    let tests = tests! {
        callers::every_operation_works_at_every_level_of_the_session
        callers::a_transaction_of_any_level_but_snapshot_is_joined_and_keeps_its_level
        callers::a_transaction_at_snapshot_is_refused_before_anything_is_written
        callers::a_doomed_transaction_is_refused_by_our_own_number
        callers::an_error_leaves_no_transaction_of_ours_open
        callers::an_implicit_transaction_is_joined_by_an_enqueue_and_not_by_a_claim
        callers::the_settings_of_old_clients_are_no_hindrance
        callers::a_malformed_traceparent_is_dropped
        callers::a_second_migration_finds_nothing_to_do
        locks::an_open_enqueue_locks_no_range_and_no_table
        locks::other_keys_do_not_wait_for_an_open_transaction
        locks::a_completion_does_not_wait_for_who_found_its_job
        locks::a_claim_reads_no_more_when_the_table_grows
        roles::each_role_calls_what_the_grants_say_and_nothing_else
    };
    let url = rig::url();
    let trial = |(name, test): (&str, Test)| {
        let server = url.clone();
        let run = move || {
            let runtime = tokio::runtime::Runtime::new().expect("a runtime");
            runtime.block_on(async { test(SqlServerRig::on(&server.unwrap_or_default()).await).await });
            Ok(())
        };
        Trial::test(name, run).with_ignored_flag(url.is_none())
    };
    let arguments = Arguments::from_args();
    libtest_mimic::run(&arguments, tests.into_iter().map(trial).collect()).exit_code()
}

/// The first column of the first row.
pub async fn number(connection: &mut Connection, sql: &str) -> Option<i64> {
    let sql = format!("SELECT CONVERT(bigint, ({sql})) AS n");
    let row = connection.simple_query(sql).await.expect("a question").into_row().await.expect("a row");
    row.and_then(|row| row.get::<i64, _>(0))
}
