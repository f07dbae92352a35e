//! `turno run`: an xargs that survives a crash. Lines of standard input become jobs of one queue, and workers in this
//! process run a command for each. It refuses to identify a line by its number, to start a line that may be at work
//! elsewhere, and to leave a child behind.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use turno::{BoxedBackend, Worker, WorkerHandle, signals};

use crate::args::App;
use crate::child::{Children, Limits};
use crate::exit::{Exit, Fault};

mod args;
mod drain;
mod feed;
mod identity;
mod line;
mod progress;
mod records;
mod setup;
mod stop;
mod summary;

pub use args::Args;

use line::Runner;
use progress::{Listener, Progress};
use setup::Plan;
use stop::{Stop, Watch};
use summary::Summary;

/// How long the end of killed children is waited for before the program ends all the same.
const JOIN_LIMIT: Duration = Duration::from_secs(5);

/// Runs the command for every line, or only forgets the records of the run.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    args.check()?;
    let location = app.location()?;
    if args.forget {
        let backend = location.connect().await?;
        let forgotten = records::forget_all(&backend, &args.queue()).await?;
        let document = serde_json::json!({ "run": args.name, "forgotten": forgotten });
        app.output.either(&document, |_| format!("forgot {forgotten} records of the run {:?}", args.name))?;
        return Ok(Exit::Ok);
    }
    let plan = Plan::new(&args)?;
    let backend = location.connect_or_create().await?;
    if location.is_file() {
        setup::create_schema(&backend).await?;
    }
    setup::prepare(&backend, &args, &plan).await?;
    work(backend, args, plan, app.output.is_json()).await
}

async fn work(backend: BoxedBackend, args: Args, plan: Plan, json: bool) -> anyhow::Result<Exit> {
    let progress = Arc::new(Progress::new(args.quiet || json));
    crate::logging::start("error", progress.bar());
    let traces = crate::otel::start(&args.traces)?;
    let children = Arc::new(Children::start(args.lease)?);
    let watch = Watch::default();
    let runner =
        Runner::new(&args, plan.program, Arc::clone(&children), Arc::clone(&progress), watch.clone());
    let worker = worker(&backend, &args, runner, &progress, &watch)?;
    let handle = worker.handle();
    let stop = Arc::new(Stop::new(handle.clone(), backend.engine()));
    watch.tells(Arc::clone(&stop));
    let signals = signals::shutdown_on_signals(handle.clone())?;
    let ticking = tokio::spawn(progress::tick(Arc::clone(&progress), Arc::clone(&stop)));
    let (report, followed) = {
        let mut working = pin!(worker.run());
        let mut following = pin!(follow(&backend, &args, &progress, &handle));
        tokio::select! {
            report = &mut working => (report, None),
            followed = &mut following => {
                handle.shutdown();
                (working.await, Some(followed))
            }
        }
    };
    ticking.abort();
    let all_ended = children.join(JOIN_LIMIT);
    traces.end().await;
    progress.end();
    report?;
    if let Some(fault) = stop.fault() {
        return Err(fault.into());
    }
    let input_error = followed.transpose()?.flatten();
    let summary = Summary::collect(&backend, &args, &progress, signals.first()).await?;
    summary.print(json);
    if !all_ended {
        return Err(Fault::new(Exit::Internal, "a killed command has not ended yet").into());
    }
    Ok(match (signals.first(), input_error) {
        (Some(2), _) => Exit::Interrupted,
        (Some(_), _) => Exit::Terminated,
        (None, Some(error)) => crate::exit::of(&error),
        (None, None) => summary.exit(),
    })
}

fn worker(
    backend: &BoxedBackend,
    args: &Args,
    runner: Runner,
    progress: &Arc<Progress>,
    watch: &Watch,
) -> turno::Result<Worker> {
    let runner = Arc::new(runner);
    Worker::builder(Arc::clone(backend))
        .queue(args.queue())
        .concurrency(args.concurrency())
        .lease(args.lease)
        .poll(Duration::from_millis(20), Duration::from_millis(500))
        .cancel_grace(Limits::CANCEL_GRACE)
        .shutdown_grace(args.kill_after + Duration::from_secs(2))
        .hook(Listener(Arc::clone(progress)))
        .hook(watch.clone())
        .hook(runner.fence())
        .raw_handler(move |context, job| {
            let runner = Arc::clone(&runner);
            async move { runner.run(context, job).await }
        })
        .build()
}

/// Enqueues the input and waits until the run's queue is empty. A wrong line is answered as `Some`: it was told
/// already, and what was accepted before it is worked to its end.
async fn follow(
    backend: &BoxedBackend,
    args: &Args,
    progress: &Progress,
    handle: &WorkerHandle,
) -> anyhow::Result<Option<anyhow::Error>> {
    let input_error = match feed::feed(args, backend, progress).await {
        Ok(()) => None,
        Err(error) if crate::exit::of(&error) == Exit::Usage => {
            progress.error(&error);
            Some(error)
        }
        Err(error) => return Err(error),
    };
    drain::until_empty(backend, &args.queue(), handle).await?;
    Ok(input_error)
}
