//! The control loop.
use crate::report::Report;
use crate::worker::Worker;
use turno_contract::Result;

pub(crate) struct Control {
    worker: Worker,
}
impl Control {
    pub(crate) fn new(worker: Worker, _executor: tokio::runtime::Handle) -> Self {
        Control { worker }
    }
    pub(crate) async fn run(self) -> Result<Report> {
        let _ = (&self.worker.backend, &self.worker.commands);
        Err(turno_contract::Error::new(
            turno_contract::ErrorKind::Internal,
            "the control loop is not there yet",
        ))
    }
}
