//! `turno top`: the queues in a terminal, looked at again and again. It refuses to change anything: what an operator
//! sees here is repaired by the other commands.

mod screen;

use std::io::{self, IsTerminal};
use std::time::Duration;

use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::{DefaultTerminal, Terminal};
use turno::{BoxedBackend, JobFilter, JobRecord, QueueStats, State};

use self::screen::{Tab, View};
use crate::args::App;
use crate::exit::{Exit, Fault};
use crate::parse;

/// The history that numbers cover.
const WINDOW: Duration = Duration::from_secs(3600);
/// Most jobs that are shown; a terminal has fewer lines.
const JOBS_SHOWN: u32 = 200;
/// How long the database has to answer before the screen says so.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);
/// How often keys are looked for.
const KEYS_EVERY: Duration = Duration::from_millis(100);

const HELP: &str = "\
Keys: q quits, Tab or 1 2 3 changes between queues, running and dead jobs,
the arrow keys, j and k move, p holds the picture.

With --once it prints one picture of the queues as text and ends.";

/// Options of `turno top`.
#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub struct Args {
    /// Only this queue; repeat for more
    #[arg(long, value_name = "NAME")]
    queue: Vec<String>,
    /// How often to look
    #[arg(long, default_value = "2s", value_parser = parse::duration, value_name = "DURATION")]
    every: Duration,
    /// Print one picture and end
    #[arg(long)]
    once: bool,
    /// The width of that picture
    #[arg(long, default_value_t = 110, requires = "once", value_parser = clap::value_parser!(u16).range(40..=1000))]
    width: u16,
}

/// What was last seen.
#[derive(Default)]
pub(crate) struct Seen {
    queues: Vec<QueueStats>,
    jobs: Vec<JobRecord>,
    error: Option<String>,
}

/// Shows the screen until somebody quits.
pub async fn run(app: &mut App, args: Args) -> anyhow::Result<Exit> {
    for queue in &args.queue {
        turno::check_name("queue", queue)?;
    }
    if args.every < Duration::from_millis(100) {
        return Err(Fault::usage("--every is below 100ms").into());
    }
    let backend = app.connect().await?;
    if args.once {
        return once(app, &backend, &args).await;
    }
    if !io::stdout().is_terminal() {
        return Err(
            Fault::usage("standard output is no terminal; `turno top --once` prints one picture").into()
        );
    }
    // A first look before the screen is taken, so that a missing right is an error like any other.
    backend.stats(WINDOW).await?;
    let mut terminal = ratatui::try_init()?;
    let shown = show(&mut terminal, &backend, &args).await;
    ratatui::restore();
    shown?;
    Ok(Exit::Ok)
}

async fn once(app: &mut App, backend: &BoxedBackend, args: &Args) -> anyhow::Result<Exit> {
    let view = View::default();
    let mut seen = look(backend, args, view.tab).await;
    if let Some(error) = seen.error.take() {
        return Err(Fault::new(Exit::Unavailable, error).into());
    }
    let height = u16::try_from(seen.queues.len()).unwrap_or(u16::MAX - 10).saturating_add(4);
    let mut terminal = Terminal::new(ratatui::backend::TestBackend::new(args.width, height))?;
    terminal.draw(|frame| screen::draw(frame, &seen, &view))?;
    for line in screen::lines(terminal.backend().buffer()) {
        app.output.line(&line)?;
    }
    Ok(Exit::Ok)
}

async fn show(terminal: &mut DefaultTerminal, backend: &BoxedBackend, args: &Args) -> anyhow::Result<()> {
    let mut view = View::default();
    let mut seen = look(backend, args, view.tab).await;
    let mut looked_at = tokio::time::Instant::now();
    loop {
        terminal.draw(|frame| screen::draw(frame, &seen, &view))?;
        // Reading keys blocks, so it has a thread of its own.
        let key = tokio::task::spawn_blocking(next_key).await??;
        let tab = view.tab;
        if let Some(key) = key
            && view.press(key)
        {
            return Ok(());
        }
        let is_due = looked_at.elapsed() >= args.every && !view.held;
        if is_due || view.tab != tab {
            seen = look(backend, args, view.tab).await;
            looked_at = tokio::time::Instant::now();
        }
    }
}

fn next_key() -> io::Result<Option<KeyEvent>> {
    if !event::poll(KEYS_EVERY)? {
        return Ok(None);
    }
    Ok(match event::read()? {
        Event::Key(key) if key.kind == KeyEventKind::Press => Some(key),
        _ => None,
    })
}

impl View {
    /// What a key does; true if it quits.
    fn press(&mut self, key: KeyEvent) -> bool {
        let stops = key.modifiers.contains(KeyModifiers::CONTROL) && key.code == KeyCode::Char('c');
        match key.code {
            KeyCode::Char('q') | KeyCode::Esc => return true,
            KeyCode::Char('p') => self.held = !self.held,
            KeyCode::Tab => self.turn(self.tab.next()),
            KeyCode::Char('1') => self.turn(Tab::Queues),
            KeyCode::Char('2') => self.turn(Tab::Running),
            KeyCode::Char('3') => self.turn(Tab::Dead),
            KeyCode::Down | KeyCode::Char('j') => self.top = self.top.saturating_add(1),
            KeyCode::Up | KeyCode::Char('k') => self.top = self.top.saturating_sub(1),
            KeyCode::Home => self.top = 0,
            _ => {}
        }
        stops
    }

    fn turn(&mut self, tab: Tab) {
        (self.tab, self.top) = (tab, 0);
    }
}

async fn look(backend: &BoxedBackend, args: &Args, tab: Tab) -> Seen {
    let answer = async {
        let mut queues = backend.stats(WINDOW).await?;
        if !args.queue.is_empty() {
            queues.retain(|stats| args.queue.contains(&stats.queue));
        }
        queues.sort_by(|a, b| b.oldest_due_age.cmp(&a.oldest_due_age).then_with(|| a.queue.cmp(&b.queue)));
        let jobs = match tab {
            Tab::Queues => Vec::new(),
            Tab::Running => jobs(backend, State::Running, args).await?,
            Tab::Dead => jobs(backend, State::Dead, args).await?,
        };
        Ok::<_, turno::Error>(Seen { queues, jobs, error: None })
    };
    match tokio::time::timeout(ANSWER_WITHIN, answer).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => Seen { error: Some(error.to_string()), ..Seen::default() },
        Err(_) => Seen { error: Some("the database does not answer".into()), ..Seen::default() },
    }
}

async fn jobs(backend: &BoxedBackend, state: State, args: &Args) -> turno::Result<Vec<JobRecord>> {
    let queues: Vec<Option<String>> = match args.queue.as_slice() {
        [] => vec![None],
        queues => queues.iter().cloned().map(Some).collect(),
    };
    let mut found = Vec::new();
    for queue in queues {
        let filter = JobFilter { state, queue, kind: None, before: None, limit: JOBS_SHOWN };
        found.extend(backend.jobs(&filter).await?.jobs);
    }
    found.sort_by_key(|job| std::cmp::Reverse(job.id));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_turn_pages_and_quit() {
        let mut view = View::default();
        let press = |view: &mut View, code| view.press(KeyEvent::new(code, KeyModifiers::NONE));
        assert!(!press(&mut view, KeyCode::Down) && view.top == 1);
        assert!(!press(&mut view, KeyCode::Tab) && view.tab == Tab::Running && view.top == 0);
        assert!(!press(&mut view, KeyCode::Up) && view.top == 0);
        assert!(!press(&mut view, KeyCode::Char('3')) && view.tab == Tab::Dead);
        assert!(!press(&mut view, KeyCode::Tab) && view.tab == Tab::Queues);
        assert!(!press(&mut view, KeyCode::Char('p')) && view.held);
        assert!(press(&mut view, KeyCode::Char('q')));
        assert!(view.press(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)));
    }
}
