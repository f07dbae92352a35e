//! What the library says through `tracing` goes to standard error, filtered by `TURNO_LOG`. It refuses to write to
//! standard output, which belongs to answers and to the output of children.

use std::io::{self, Write};

use indicatif::ProgressBar;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// Starts logging at this level unless `TURNO_LOG` says otherwise; `bar` is put aside while a line is written.
pub fn start(level: &str, bar: Option<ProgressBar>) {
    let filter = EnvFilter::try_from_env("TURNO_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_ansi(false).with_writer(Beside(bar));
    // A second start in one process would only repeat the first.
    let _ = subscriber.try_init();
}

struct Beside(Option<ProgressBar>);

impl<'a> MakeWriter<'a> for Beside {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(self.0.clone())
    }
}

struct Line(Option<ProgressBar>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &self.0 {
            Some(bar) => bar.suspend(|| io::stderr().write(bytes)),
            None => io::stderr().write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().flush()
    }
}
