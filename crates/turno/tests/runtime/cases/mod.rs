//! The cases, by subject.

pub mod child;
mod effects;
mod failures;
mod leases;
mod metrics;
mod pace;
mod schedules;
mod shutdown;
mod typed;

use crate::Case;

/// Lists cases: each is an `async fn(Arc<Rig>)`.
macro_rules! cases {
    ($($(#[$only:ident])? $name:ident),+ $(,)?) => {
        pub(crate) fn cases() -> Vec<crate::Case> {
            vec![$(crate::Case {
                name: stringify!($name),
                run: |rig| Box::pin($name(rig)),
                only: cases!(@only $($only)?),
            }),+]
        }
    };
    (@only) => { None };
    (@only sqlite) => { Some(turno::Engine::Sqlite) };
    (@only postgres) => { Some(turno::Engine::Postgres) };
}
pub(crate) use cases;

/// All of them.
pub fn all() -> Vec<Case> {
    [
        typed::cases(),
        failures::cases(),
        leases::cases(),
        shutdown::cases(),
        pace::cases(),
        effects::cases(),
        metrics::cases(),
        schedules::cases(),
        child::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
