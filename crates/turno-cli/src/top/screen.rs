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
        "{} queues   {} ready   {} scheduled   {} running   {} expired   {} dead in the last hour",
        seen.queues.len(),
        sum(|stats| &stats.ready),
        sum(|stats| &stats.scheduled),
        sum(|stats| &stats.running),
        sum(|stats| &stats.expired),
        sum(|stats| &stats.dead),
    );
    let held = if view.held { "   HELD" } else { "" };
    let name = Span::styled("turno   ", Style::new().add_modifier(Modifier::BOLD));
    Line::from(vec![name, Span::raw(totals), Span::styled(held, alarm(true))])
}

fn alarm(is_on: bool) -> Style {
    if is_on { Style::new().fg(Color::Red).add_modifier(Modifier::BOLD) } else { Style::new() }
}

fn header(headings: &[&'static str]) -> Row<'static> {
    Row::new(headings.to_vec()).style(Style::new().add_modifier(Modifier::BOLD))
}

fn queues(frame: &mut Frame, area: Rect, stats: &[QueueStats], top: usize) {
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
        let paused = if stats.paused { " (paused)" } else { "" };
        let late = stats.oldest_due_age.is_some_and(|age| age > LATE);
        Row::new(vec![
            Cell::new(format!("{}{paused}", one_line(&stats.queue, 60))),
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
    widths.extend([Constraint::Length(9); 7]);
    widths.push(Constraint::Length(11));
    frame.render_widget(Table::new(rows, widths).header(header(&headings)), area);
}

fn jobs(frame: &mut Frame, area: Rect, jobs: &[JobRecord], tab: Tab, top: usize) {
    let last = if tab == Tab::Running { "LEASE UNTIL" } else { "ENDED" };
    let headings = ["ID", "QUEUE", "KIND", "ATTEMPT", "FAILURES", last, "WORKER", "ERROR"];
    let rows = jobs.iter().skip(top).map(|job| {
        let at = job.finished_at.or(job.lease_until).map(parse::show_instant).unwrap_or_default();
        // To the second is enough for a glance.
        let at: String = at.chars().take(19).collect();
        Row::new(vec![
            job.id.to_string(),
            one_line(&job.queue, 40),
            one_line(&job.kind, 40),
            job.attempt.to_string(),
            format!("{}/{}", job.failures, job.max_attempts),
            at,
            one_line(job.worker.as_deref().unwrap_or_default(), 40),
            one_line(job.error.as_deref().unwrap_or_default(), 200),
        ])
    });
    let widths = [
        Constraint::Length(10),
        Constraint::Fill(1),
        Constraint::Fill(1),
        Constraint::Length(8),
        Constraint::Length(9),
        Constraint::Length(20),
        Constraint::Fill(1),
        Constraint::Fill(2),
    ];
    frame.render_widget(Table::new(rows, widths).header(header(&headings)), area);
}
