//! `turno work`: a long-running worker that runs a command per kind.

use std::io::{self, Read};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use serde_json::value::RawValue;
use turno::prometheus::Metrics;
use turno::{CancelCause, Context, JobError, Report, Worker, limits, signals};

use crate::args::App;
use crate::child::{self, Attempt, Children, Ended, Limits, Spec, Stopped};
use crate::exit::Exit;
use crate::otel;
use crate::parse;
use crate::serve::metrics::{Scraped, start};

/// The exit status by which a command says "not now" (EX_TEMPFAIL).
const NOT_NOW: i32 = 75;

const HELP: &str = "\
The command of a kind is run by sh -c, with the payload on its standard input
and TURNO_JOB_ID, TURNO_ATTEMPT, TURNO_OPERATION_ID (the same in every
attempt), TURNO_KIND, TURNO_QUEUE and, if the job belongs to a trace,
TRACEPARENT in its environment. Exit status 0
completes the job, with standard output as its result if that is JSON; 75
gives it back uncharged, to be tried again after --snooze; any other fails it,
with the end of standard error as the reason. Standard error is passed on when
the command ends. A job of a kind without a command is put back uncharged.

SIGTERM or SIGINT: no new jobs; running commands have --grace to end, then
they get SIGTERM, and SIGKILL after --kill-after; what did not end by itself
is given back. A second signal stops at once. If turno is killed, the commands
and what they started are killed, too, unless they left their process group.

Example:
  turno work --queue mail --queue pdf --kind 'welcome=./send-welcome' --kind 'pdf=python3 make_pdf.py'";

/// Options of `turno work`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// A queue; repeat for more
    #[arg(long, required = true)]
    queue: Vec<String>,
    /// The command of a kind; repeat for more
    #[arg(long, required = true, value_name = "NAME=CMD", value_parser = kind)]
    kind: Vec<(String, String)>,
    /// How many commands run at the same time
    #[arg(short, long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    concurrency: u16,
    /// How long jobs are held without a sign of life: after a crash it takes as long until others take over
    #[arg(long, default_value = "30s", value_parser = parse::duration, value_name = "DURATION")]
    lease: Duration,
    /// The delay of a job whose command exits with status 75
    #[arg(long, default_value = "1m", value_parser = parse::duration, value_name = "DURATION")]
    snooze: Duration,
    /// How long running commands have to end by themselves after a signal
    #[arg(long, default_value = "10s", value_parser = parse::duration, value_name = "DURATION")]
    grace: Duration,
    /// The time between SIGTERM and SIGKILL for a command that is stopped
    #[arg(long, default_value = "5s", value_parser = parse::duration, value_name = "DURATION")]
    kill_after: Duration,
    /// Answer /metrics and /healthz here; port 0 takes a free one and says which
    #[arg(long, value_name = "ADDR:PORT")]
    metrics: Option<SocketAddr>,
    /// A label for people; host, process and a random part if not given
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    traces: otel::TraceArgs,
}

fn kind(text: &str) -> Result<(String, String), String> {
    let (name, command) = text.split_once('=').ok_or("write it as NAME=CMD")?;
    turno::check_name("kind", name).map_err(|error| error.to_string())?;
    if command.trim().is_empty() {
        return Err(format!("kind {name:?} has an empty command"));
    }
    Ok((name.to_owned(), command.to_owned()))
}

/// Works until a signal comes.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let backend = app.connect().await?;
    crate::logging::start("warn", None);
    let traces = otel::start(&args.traces)?;
    let children = Arc::new(Children::start(args.lease)?);
    let limits = Limits { timeout: None, grace: args.grace, kill_after: args.kill_after };
    let shell = Arc::new(Shell { limits, snooze: args.snooze, children: Arc::clone(&children) });
    let metrics = Metrics::new();
    let mut builder = Worker::builder(backend.clone())
        .queues(args.queue)
        .concurrency(usize::from(args.concurrency))
        .lease(args.lease)
        .hook(children.fence())
        .cancel_grace(Limits::CANCEL_GRACE)
        .shutdown_grace(args.grace + args.kill_after + Duration::from_secs(1));
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    if args.metrics.is_some() {
        builder = builder.metrics(&metrics);
    }
    for (name, command) in args.kind {
        let (shell, command) = (Arc::clone(&shell), Arc::new(command));
        builder = builder.handler(name, move |context: Context, payload: Box<RawValue>| {
            let (shell, command) = (Arc::clone(&shell), Arc::clone(&command));
            async move { shell.run(&command, context, &payload).await }
        });
    }
    let worker = builder.build()?;
    if let Some(listen) = args.metrics {
        let address = start(listen, Scraped { backend, metrics }).await?;
        eprintln!("turno: metrics at http://{address}/metrics");
    }
    let signals = signals::shutdown_on_signals(worker.handle())?;
    let report = worker.run().await;
    children.join(Duration::from_secs(5));
    traces.end().await;
    let report = report?;
    app.output.either(&report, summary)?;
    Ok(match signals.first() {
        Some(2) => Exit::Interrupted,
        Some(_) => Exit::Terminated,
        None => Exit::Ok,
    })
}

fn summary(report: &Report) -> String {
    let m = &report.metrics;
    format!(
        "stopped: {} succeeded, {} failed ({} dead), {} cancelled, {} given back, {} refused, {} leases lost, {} left \
         to their lease",
        m.succeeded,
        m.failed,
        m.dead,
        m.cancelled,
        m.released,
        m.refused,
        m.leases_lost,
        report.left_to_lease.len()
    )
}

/// Runs the command of a job.
struct Shell {
    limits: Limits,
    snooze: Duration,
    children: Arc<Children>,
}

impl Shell {
    async fn run(
        &self,
        command: &str,
        context: Context,
        payload: &RawValue,
    ) -> Result<Option<Box<RawValue>>, JobError> {
        let mut env = child::environment(context.job());
        env.extend([
            ("TURNO_KIND", context.job().kind.clone()),
            ("TURNO_QUEUE", context.job().queue.clone()),
        ]);
        let args = vec!["-c".into(), command.into()];
        let input = payload.get().as_bytes().to_vec();
        let spec = Spec { program: "/bin/sh".into(), name: "sh".into(), args, env, input };
        let attempt = child::attempt(&self.children, &context, spec, self.limits).await;
        let Attempt { mut ended, stopped } =
            attempt.map_err(|error| JobError::new(format!("cannot run sh: {error}")))?;
        let _ = io::copy(&mut ended.stderr, &mut io::stderr().lock());
        match stopped {
            Some(Stopped::Cancelled(CancelCause::Shutdown)) => return Err(JobError::release()),
            Some(Stopped::Cancelled(cause)) => return Err(JobError::new(format!("stopped, since {cause}"))),
            Some(Stopped::TimedOut) => return Err(JobError::new("timed out")),
            None => {}
        }
        match ended.status.code() {
            Some(0) => Ok(result(&mut ended)),
            Some(NOT_NOW) => Err(JobError::snooze(self.snooze)),
            _ => Err(JobError::new(ended.failure())),
        }
    }
}

/// Standard output, if it is one JSON document within the limits.
fn result(ended: &mut Ended) -> Option<Box<RawValue>> {
    let mut text = String::new();
    let max = limits::PAYLOAD_BYTES_MAX_DEFAULT;
    (&mut ended.stdout).take(max as u64 + 1).read_to_string(&mut text).ok()?;
    let text = text.trim();
    turno::check_json("the result", text, max).ok()?;
    RawValue::from_string(text.to_owned()).ok()
}
