//! The picture of `turno top`. It refuses to ask anything: it draws what was seen.

use std::time::Duration;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Cell, Paragraph, Row, Table};
use turno::{Count, JobRecord, QueueStats};

use super::Seen;
use crate::output::one_line;
use crate::parse;

/// From which age on the oldest due job is worth a colour.
const LATE: Duration = Duration::from_secs(60);

/// What is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Tab {
    /// The queues.
    #[default]
    Queues,
    /// Running jobs.
    Running,
    /// Dead jobs.
    Dead,
}

impl Tab {
    /// The next one.
    pub fn next(self) -> Tab {
        match self {
            Tab::Queues => Tab::Running,
            Tab::Running => Tab::Dead,
            Tab::Dead => Tab::Queues,
        }
    }
}

/// How it is looked at.
#[derive(Debug, Clone, Copy, Default)]
pub struct View {
    /// What.
    pub tab: Tab,
    /// The first line that is shown.
    pub top: usize,
    /// Whether the picture stands still.
    pub held: bool,
}

/// Draws everything.
pub fn draw(frame: &mut Frame, seen: &Seen, view: &View) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(2), Constraint::Min(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(Paragraph::new(heading(seen, view)), head);
    match (&seen.error, view.tab) {
        (Some(error), _) => {
            frame.render_widget(Paragraph::new(one_line(error, 500)).style(alarm(true)), body);
        }
        (None, Tab::Queues) => queues(frame, body, &seen.queues, view.top),
        (None, tab) => jobs(frame, body, &seen.jobs, tab, view.top),
    }
    let keys = "q quit   Tab queues, running, dead   ↑ ↓ move   p hold";
    frame.render_widget(Paragraph::new(keys).style(Style::new().add_modifier(Modifier::DIM)), foot);
}

/// The lines of a picture, without the blanks at their ends.
pub fn lines(buffer: &Buffer) -> Vec<String> {
    let width = usize::from(buffer.area.width);
    let mut lines: Vec<String> = buffer
        .content
        .chunks(width)
        .map(|cells| cells.iter().map(|cell| cell.symbol()).collect::<String>().trim_end().to_owned())
        .collect();
    // The line about keys is of no use on paper.
    lines.pop();
    lines
}

fn heading(seen: &Seen, view: &View) -> Line<'static> {
    let sum = |count: fn(&QueueStats) -> &Count| seen.queues.iter().map(|stats| count(stats).n).sum::<u64>();
    let totals = format!(
        "{} queues  {} dead/hour  {} expired  {} running  {} ready  {} scheduled",
        seen.queues.len(),
        sum(|stats| &stats.dead),
        sum(|stats| &stats.expired),
        sum(|stats| &stats.running),
        sum(|stats| &stats.ready),
        sum(|stats| &stats.scheduled),
    );
    let held = if view.held { "HELD  " } else { "" };
    let name = Span::styled("turno  ", Style::new().add_modifier(Modifier::BOLD));
    // A narrow terminal cuts the end off: what can wait stands there.
    Line::from(vec![name, Span::styled(held, alarm(true)), Span::raw(totals)])
}

fn alarm(is_on: bool) -> Style {
    if is_on { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() }
}

fn header(headings: &[&'static str]) -> Row<'static> {
    Row::new(headings.to_vec()).style(Style::new().add_modifier(Modifier::BOLD))
}

/// From this width on everything fits beside the names; below it the columns that somebody on call needs least are left out.
const WIDE: u16 = 110;

fn queues(frame: &mut Frame, area: Rect, stats: &[QueueStats], top: usize) {
    let wide = area.width >= WIDE;
    let shown = |row: Vec<Cell<'static>>| -> Row<'static> {
        // Scheduled, ended, retries and the time to start are the ones that wait.
        let waits = [3, 6, 8, 9];
        Row::new(
            row.into_iter().enumerate().filter(|(n, _)| wide || !waits.contains(n)).map(|(_, cell)| cell),
        )
    };
    let headings = [
        "QUEUE",
        "OLDEST DUE",
        "READY",
        "SCHEDULED",
        "RUNNING",
        "EXPIRED",
        "ENDED",
        "DEAD",
        "RETRIES",
        "START p99",
    ];
    let rows = stats.iter().skip(top).map(|stats| {
        let count = |count: &Count| format!("{}{}", count.n, if count.capped { "+" } else { "" });
        let time = |time: Option<Duration>| time.map_or_else(|| "-".to_owned(), parse::show);
        let late = stats.oldest_due_age.is_some_and(|age| age > LATE);
        // What matters is not behind a long name.
        let paused = if stats.paused { "(paused) " } else { "" };
        shown(vec![
            Cell::new(format!("{paused}{}", one_line(&stats.queue, 60))),
            Cell::new(time(stats.oldest_due_age)).style(alarm(late)),
            Cell::new(count(&stats.ready)),
            Cell::new(count(&stats.scheduled)),
            Cell::new(count(&stats.running)),
            Cell::new(count(&stats.expired)).style(alarm(stats.expired.n > 0)),
            Cell::new(count(&stats.succeeded)),
            Cell::new(count(&stats.dead)).style(alarm(stats.dead.n > 0)),
            Cell::new(count(&stats.retries)),
            Cell::new(time(stats.start_p99)),
        ])
    });
    let mut widths = vec![Constraint::Fill(1), Constraint::Length(12)];
    widths.extend([Constraint::Length(if wide { 9 } else { 7 }); 7]);
    widths.push(Constraint::Length(11));
    widths.truncate(if wide { 10 } else { 6 });
    let heads = shown(headings.into_iter().map(Cell::new).collect());
    let heads = heads.style(Style::new().add_modifier(Modifier::BOLD));
    frame.render_widget(Table::new(rows, widths).header(heads), area);
}

fn jobs(frame: &mut Frame, area: Rect, jobs: &[JobRecord], tab: Tab, top: usize) {
    let wide = area.width >= WIDE;
    if jobs.is_empty() {
        let what = if tab == Tab::Running { "No job is running." } else { "No job is dead." };
        frame.render_widget(Paragraph::new(what), area);
        return;
    }
    let last = if tab == Tab::Running { "LEASE UNTIL" } else { "ENDED" };
    let fifth = if tab == Tab::Running { "WORKER" } else { "ERROR" };
    let rows = jobs.iter().skip(top).map(|job| {
        let at = job.finished_at.or(job.lease_until).map(parse::show_instant).unwrap_or_default();
        // To the second is enough for a glance.
        let at: String = at.chars().take(19).collect();
        let (worker, error) =
            (job.worker.as_deref().unwrap_or_default(), job.error.as_deref().unwrap_or_default());
        let failures = format!("{}/{}", job.failures, job.max_attempts);
        let mut row = vec![job.id.to_string(), one_line(&job.queue, 40), one_line(&job.kind, 40)];
        if wide {
            row.extend([job.attempt.to_string(), failures, at, one_line(worker, 40), one_line(error, 200)]);
        } else {
            row.extend([at, one_line(if tab == Tab::Running { worker } else { error }, 200)]);
        }
        Row::new(row)
    });
    let fill = Constraint::Fill;
    let (headings, widths) = if wide {
        (
            vec!["ID", "QUEUE", "KIND", "ATTEMPT", "FAILURES", last, "WORKER", "ERROR"],
            vec![
                Constraint::Length(10),
                fill(1),
                fill(1),
                Constraint::Length(8),
                Constraint::Length(9),
                Constraint::Length(20),
                fill(1),
                fill(2),
            ],
        )
    } else {
        (
            vec!["ID", "QUEUE", "KIND", last, fifth],
            vec![Constraint::Length(8), fill(1), fill(1), Constraint::Length(19), fill(2)],
        )
    };
    frame.render_widget(Table::new(rows, widths).header(header(&headings)), area);
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;

    fn picture(seen: &Seen, view: &View, width: u16) -> Vec<String> {
        let mut terminal = Terminal::new(TestBackend::new(width, 24)).unwrap();
        terminal.draw(|frame| draw(frame, seen, view)).unwrap();
        lines(terminal.backend().buffer())
    }

    fn stats(queue: &str) -> QueueStats {
        let none = Count { n: 0, capped: false };
        let many = Count { n: 10_000, capped: true };
        QueueStats {
            queue: queue.to_owned(),
            paused: true,
            oldest_due_age: Some(Duration::from_secs(3 * 86_400 + 4 * 3600)),
            ready: many,
            scheduled: many,
            running: Count { n: 42, capped: false },
            expired: Count { n: 7, capped: false },
            succeeded: many,
            dead: Count { n: 13, capped: false },
            cancelled: none,
            retries: none,
            refused: none,
            start_p50: None,
            start_p99: Some(Duration::from_millis(12_345)),
            finish_p50: None,
            finish_p99: None,
        }
    }

    #[test]
    fn a_long_name_hides_no_number_in_80_columns_or_in_200() {
        let names = ["a".repeat(200), "📮 posta".to_owned(), "طابور الرسائل".to_owned()];
        let seen = Seen { queues: names.iter().map(|name| stats(name)).collect(), ..Seen::default() };
        for width in [80, 110, 200] {
            let lines = picture(&seen, &View::default(), width);
            assert!(lines[0].contains("39 dead/hour  21 expired"), "{lines:#?}");
            for line in &lines[3..6] {
                let words: Vec<&str> = line.split_whitespace().collect();
                for word in ["(paused)", "3d", "10000+", "42", "7", "13"] {
                    assert!(words.contains(&word), "{width}: {word} is missing in {lines:#?}");
                }
            }
            assert!(lines.iter().all(|line| line.chars().count() <= usize::from(width)));
        }
    }

    #[test]
    fn a_page_without_jobs_says_so() {
        let view = View { tab: Tab::Dead, ..View::default() };
        assert!(picture(&Seen::default(), &view, 80).iter().any(|line| line == "No job is dead."));
    }
}
