//! `turno enqueue`: one job, or many from NDJSON.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use time::OffsetDateTime;
use turno::{Backend, Enqueued, NewJob, limits};

use crate::args::App;
use crate::child::TRACEPARENT;
use crate::exit::{Exit, Fault};
use crate::input::{self, Batch, Lines, Row, RowDefaults};
use crate::parse;

/// The longest NDJSON line: the largest payload, and room for the other fields.
const LINE_BYTES_MAX: usize = limits::PAYLOAD_BYTES_MAX_DEFAULT + (64 << 10);

const HELP: &str = "\
A row of NDJSON is an object with the fields queue, kind, payload, priority,
run_at, max_attempts, max_run_ms, unique_key, idempotency_key and traceparent.
Any other field is an error. What a row leaves out comes from the options. The payload
is kept byte for byte. Each batch is one transaction; a row that is wrong is
named by its line, nothing of its batch is enqueued, and the message says what
was accepted before. With an idempotency_key in every row the same file can be
sent again: rows that are there already are only answered.

Examples:
  turno enqueue --queue mail --kind welcome --payload '{\"user\":7}' --delay 10s
  turno enqueue --queue mail --ndjson jobs.ndjson
  psql -Atc 'SELECT json_build_object(...)' | turno enqueue --queue mail --kind welcome --ndjson -";

/// Options of `turno enqueue`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// The queue
    #[arg(long, required_unless_present = "ndjson")]
    queue: Option<String>,
    /// The kind, which names the handler
    #[arg(long, required_unless_present = "ndjson")]
    kind: Option<String>,
    /// The payload, a JSON document; null if not given
    #[arg(long, conflicts_with = "ndjson", value_name = "JSON", allow_hyphen_values = true)]
    payload: Option<String>,
    /// Enqueue every row of this file, or of standard input if it is -
    #[arg(long, value_name = "FILE")]
    ndjson: Option<PathBuf>,
    /// Rows per transaction
    #[arg(long, requires = "ndjson", default_value_t = 1000)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=limits::ENQUEUE_JOBS_MAX as i64))]
    batch: u32,
    /// -1000 (most urgent) to 1000; takes the scheduler's right
    #[arg(long, allow_negative_numbers = true)]
    priority: Option<i32>,
    /// When it is due, such as 2027-01-31T08:00:00+01:00
    #[arg(long, value_parser = parse::instant, value_name = "RFC3339")]
    run_at: Option<OffsetDateTime>,
    /// It is due this long from now, by this machine's clock
    #[arg(long, value_parser = parse::duration, conflicts_with = "run_at", value_name = "DURATION", allow_hyphen_values = true)]
    delay: Option<Duration>,
    /// Failure budget; the queue's default if not given
    #[arg(long, allow_negative_numbers = true)]
    max_attempts: Option<u32>,
    /// Time that one attempt may take; the queue's default if not given
    #[arg(long, value_parser = parse::duration, value_name = "DURATION")]
    max_run: Option<Duration>,
    /// At most one unfinished job of the queue has this key; if there is one, it is answered
    #[arg(long, conflicts_with = "ndjson")]
    unique_key: Option<String>,
    /// The same key again answers the first job, as long as its record is kept
    #[arg(long, conflicts_with = "ndjson")]
    idempotency_key: Option<String>,
    /// The trace that the job belongs to (W3C Trace Context); a malformed one is dropped
    #[arg(long, env = TRACEPARENT, value_name = "HEADER")]
    traceparent: Option<String>,
}

/// Enqueues.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    let run_at = match args.delay {
        None => args.run_at,
        Some(delay) => Some(from_now(delay)?),
    };
    match &args.ndjson {
        None => one(app, &args, run_at).await,
        Some(path) => {
            let reader: Box<dyn BufRead + Send> = match path.to_str() {
                Some("-") => Box::new(BufReader::new(io::stdin())),
                _ => Box::new(BufReader::with_capacity(1 << 16, open(path)?)),
            };
            many(app, &args, run_at, reader).await
        }
    }
}

fn from_now(delay: Duration) -> anyhow::Result<OffsetDateTime> {
    let delay = time::Duration::try_from(delay).ok();
    let instant = delay.and_then(|delay| OffsetDateTime::now_utc().checked_add(delay));
    Ok(instant.ok_or_else(|| Fault::usage("--delay reaches beyond the year 9999"))?)
}

fn open(path: &std::path::Path) -> anyhow::Result<File> {
    File::open(path).map_err(|error| {
        Fault::new(Exit::InputOutput, format!("cannot read {}: {error}", path.display())).into()
    })
}

async fn one(app: &mut App, args: &Args, run_at: Option<OffsetDateTime>) -> anyhow::Result<Exit> {
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    let payload = args.payload.clone().unwrap_or_else(|| "null".to_owned());
    let mut job = NewJob::new(text(&args.queue), text(&args.kind), payload);
    job.run_at = run_at;
    job.priority = args.priority;
    job.max_attempts = args.max_attempts;
    job.max_run = args.max_run;
    job.unique_key = args.unique_key.clone();
    job.idempotency_key = args.idempotency_key.clone();
    job.traceparent = args.traceparent.clone();
    job.check(limits::PAYLOAD_BYTES_MAX_DEFAULT)?;
    let answers = app.connect().await?.enqueue(&[job]).await?;
    for enqueued in &answers {
        app.output.either(enqueued, |enqueued| match enqueued.created {
            true => format!("job {} is enqueued", enqueued.id),
            false => format!("job {} was there already", enqueued.id),
        })?;
    }
    Ok(Exit::Ok)
}

async fn many(
    app: &mut App,
    args: &Args,
    run_at: Option<OffsetDateTime>,
    reader: Box<dyn BufRead + Send>,
) -> anyhow::Result<Exit> {
    let defaults = RowDefaults {
        queue: args.queue.clone(),
        kind: args.kind.clone(),
        priority: args.priority,
        run_at,
        max_attempts: args.max_attempts,
        max_run: args.max_run,
        traceparent: args.traceparent.clone(),
    };
    let backend = app.connect().await?;
    let lines = Lines::new(reader, b'\n', LINE_BYTES_MAX);
    let mut batches = input::read(lines, args.batch as usize, move |line| match line.bytes.trim_ascii() {
        b"" => Ok(None),
        _ => Row::parse(&line.bytes)?.into_job(&defaults).map(Some),
    })?;
    let mut accepted = Accepted::default();
    loop {
        let batch = batches.next_batch().await.map_err(|error| accepted.explain(error))?;
        let Some(batch) = batch else { break };
        let answers = send(backend.as_ref(), &batch).await.map_err(|error| accepted.explain(error))?;
        accepted.add(app, &batch, &answers)?;
    }
    if !app.output.is_json() {
        app.output.line(&accepted.to_string())?;
    }
    Ok(Exit::Ok)
}

async fn send(backend: &dyn Backend, batch: &Batch) -> anyhow::Result<Vec<Enqueued>> {
    let jobs: Vec<NewJob> = batch.iter().map(|entry| entry.job.clone()).collect();
    backend.enqueue(&jobs).await.map_err(|error| {
        let (first, last) = (batch.first().map_or(0, |e| e.number), batch.last().map_or(0, |e| e.number));
        anyhow::Error::new(error).context(format!("the batch of lines {first} to {last}"))
    })
}

/// What the database has accepted so far.
#[derive(Debug, Default)]
struct Accepted {
    created: u64,
    existed: u64,
    last_line: u64,
}

impl Accepted {
    fn add(&mut self, app: &mut App, batch: &Batch, answers: &[Enqueued]) -> anyhow::Result<()> {
        for (entry, answer) in batch.iter().zip(answers) {
            self.last_line = entry.number;
            match answer.created {
                true => self.created += 1,
                false => self.existed += 1,
            }
            if app.output.is_json() {
                let (line, id, created) = (entry.number, answer.id, answer.created);
                app.output.document(&serde_json::json!({ "line": line, "id": id, "created": created }))?;
            }
        }
        Ok(())
    }

    /// The error with what was accepted before it, which stays.
    fn explain(&self, error: anyhow::Error) -> anyhow::Error {
        let before = match self.last_line {
            0 => "nothing was enqueued".to_owned(),
            last => {
                format!("nothing of its batch was enqueued; lines 1 to {last} were accepted before ({self})")
            }
        };
        // The fault keeps the status of its cause and puts the consequence behind it, not before.
        Fault::new(crate::exit::of(&error), format!("{}; {before}", crate::output::message(&error, None)))
            .into()
    }
}

impl std::fmt::Display for Accepted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "enqueued {} jobs", self.created)?;
        match self.existed {
            0 => Ok(()),
            existed => write!(f, "; {existed} were there already"),
        }
    }
}
