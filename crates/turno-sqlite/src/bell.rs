//! The doorbell of one backend, and who waits for it. Refuses to ring while nobody waits.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Rings for sleepers in this process.
pub(crate) struct Bell {
    rings: watch::Sender<u64>,
    waits: Mutex<HashMap<String, Instant>>,
}

impl Bell {
    pub(crate) fn new() -> Self {
        Bell { rings: watch::Sender::new(0), waits: Mutex::default() }
    }

    /// Changes with every ring.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.rings.subscribe()
    }

    /// Marks that somebody sleeps until one of these queues has work.
    pub(crate) fn wait(&self, queues: &[String], ttl: Duration) {
        let until = Instant::now() + ttl;
        let mut waits = self.waits.lock().expect("nobody panics with this lock");
        for queue in queues {
            let old = waits.entry(queue.clone()).or_insert(until);
            *old = until.max(*old);
        }
    }

    /// The queues that somebody waits for now.
    pub(crate) fn waiting(&self) -> Vec<String> {
        let now = Instant::now();
        let mut waits = self.waits.lock().expect("nobody panics with this lock");
        waits.retain(|_, until| *until > now);
        waits.keys().cloned().collect()
    }

    /// Wakes the sleepers, if there are any.
    pub(crate) fn ring(&self) {
        if !self.waiting().is_empty() {
            self.rings.send_modify(|rings| *rings += 1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rings_only_for_sleepers() {
        let bell = Bell::new();
        let mut receiver = bell.subscribe();
        bell.ring();
        assert!(!receiver.has_changed().unwrap());
        bell.wait(&["a".to_owned()], Duration::from_secs(60));
        bell.ring();
        assert!(receiver.has_changed().unwrap());
        receiver.borrow_and_update();
        assert_eq!(bell.waiting(), ["a"]);
    }

    #[test]
    fn a_wait_ends() {
        let bell = Bell::new();
        bell.wait(&["a".to_owned()], Duration::ZERO);
        assert_eq!(bell.waiting(), Vec::<String>::new());
    }
}
