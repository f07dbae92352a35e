//! One figure and how it is printed: a line for people, or a JSON document. It refuses to print a number without its
//! unit, or a ratio without the floor that it is a ratio of.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::Bench;

/// One measured figure.
#[derive(Debug, Clone, Serialize)]
pub struct Figure {
    workload: &'static str,
    figure: String,
    value: f64,
    /// Least and most of all rounds.
    #[serde(skip_serializing_if = "Option::is_none")]
    range: Option<(f64, f64)>,
    unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    floor: Option<FloorValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    target: Option<Target>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    details: Map<String, Value>,
}

/// What the raw work took.
#[derive(Debug, Clone, Serialize)]
struct FloorValue {
    name: String,
    value: f64,
    range: (f64, f64),
}

/// What the ratio, or the figure itself, is to be.
#[derive(Debug, Clone, Copy, Serialize)]
struct Target {
    #[serde(skip_serializing_if = "Option::is_none")]
    at_least: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_most: Option<f64>,
    met: bool,
}

/// The median of some measurements, with the least and the most.
#[derive(Debug, Clone, Copy)]
pub struct Spread {
    /// In the middle.
    pub median: f64,
    /// Least and most.
    pub range: (f64, f64),
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |i: usize| sorted.get(i).copied().unwrap_or(f64::NAN);
        let n = sorted.len();
        let median = if n % 2 == 1 { at(n / 2) } else { (at(n / 2 - 1) + at(n / 2)) / 2.0 };
        Spread { median, range: (at(0), at(n - 1)) }
    }
}

/// The value below which this part of the measurements lies.
pub fn percentile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let index = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1)) - 1;
    sorted.get(index).copied().unwrap_or(f64::NAN)
}

impl Figure {
    /// A figure with one value.
    pub fn new(workload: &'static str, figure: impl Into<String>, value: f64, unit: &'static str) -> Self {
        Figure {
            workload,
            figure: figure.into(),
            value,
            range: None,
            unit,
            floor: None,
            ratio: None,
            target: None,
            details: Map::new(),
        }
    }

    /// A figure of several rounds.
    pub fn spread(
        workload: &'static str,
        figure: impl Into<String>,
        spread: Spread,
        unit: &'static str,
    ) -> Self {
        Figure { range: Some(spread.range), ..Figure::new(workload, figure, spread.median, unit) }
    }

    /// The floor of the same run, in the same unit.
    pub fn floor(mut self, name: impl Into<String>, floor: Spread) -> Self {
        self.ratio = Some(self.value / floor.median);
        self.floor = Some(FloorValue { name: name.into(), value: floor.median, range: floor.range });
        self
    }

    /// Another figure of the same run to be compared with.
    pub fn ratio(mut self, ratio: f64) -> Self {
        self.ratio = Some(ratio);
        self
    }

    /// The ratio, or the value where there is none, is to be at least this.
    pub fn at_least(mut self, least: f64) -> Self {
        let met = self.ratio.unwrap_or(self.value) >= least;
        self.target = Some(Target { at_least: Some(least), at_most: None, met });
        self
    }

    /// The same, at most.
    pub fn at_most(mut self, most: f64) -> Self {
        let met = self.ratio.unwrap_or(self.value) <= most;
        self.target = Some(Target { at_least: None, at_most: Some(most), met });
        self
    }

    /// Something else that was seen.
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    fn line(&self) -> String {
        let mut line =
            format!("{:<4}{:<46}{:>10} {}", self.workload, self.figure, number(self.value), self.unit);
        if let Some((least, most)) = self.range.filter(|(least, most)| least != most) {
            line += &format!(" ({}..{})", number(least), number(most));
        }
        if let Some(ratio) = self.ratio {
            line += &format!("  ratio {ratio:.2}");
        }
        if let Some(floor) = &self.floor {
            line += &format!(" of {} {}", floor.name, number(floor.value));
        }
        if let Some(target) = &self.target {
            let (word, limit) = match (target.at_least, target.at_most) {
                (Some(least), _) => ("at least", least),
                (_, most) => ("at most", most.unwrap_or_default()),
            };
            line += &format!("  {} ({word} {})", if target.met { "met" } else { "MISSED" }, number(limit));
        }
        for (name, value) in &self.details {
            let value = match value.as_f64() {
                Some(value) => number(value),
                None => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            };
            line += &format!("  {} {value}", name.replace('_', " "));
        }
        line
    }
}

/// Three or four digits that mean something.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

impl Bench<'_> {
    /// Prints a figure at once: a run takes minutes, and may be stopped.
    pub(super) fn print(&mut self, figure: &Figure) -> anyhow::Result<()> {
        self.app.output.either(figure, Figure::line)?;
        self.app.output.flush()
    }

    /// Says that a workload means nothing on this engine.
    pub(super) fn skip(&mut self, workload: &'static str, why: &str) -> anyhow::Result<()> {
        let document = json!({ "workload": workload, "skipped": why });
        self.app.output.either(&document, |_| format!("{workload:<4}skipped: {why}"))?;
        self.app.output.flush()
    }

    /// Says where and how it is measured.
    pub(super) async fn introduce(&mut self) -> anyhow::Result<()> {
        let version = self.floor.version().await?;
        let cores = std::thread::available_parallelism().map_or(0, usize::from);
        let load = super::process::load();
        let sizes = format!("{:?}", self.sizes);
        let document = json!({
            "bench": env!("CARGO_PKG_VERSION"), "server": version, "cores": cores, "load": load, "sizes": sizes,
            "batch": self.args.batch, "enqueue_batch": self.args.enqueue_batch, "workers": self.args.workers,
        });
        self.app.output.either(&document, |_| {
            format!("turno {} on {version}, {cores} cores, load {load:.1}", env!("CARGO_PKG_VERSION"))
        })?;
        self.app.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_decides_where_there_is_one() {
        let spread = |value| Spread::of(&[value]);
        let figure = Figure::new("W2", "drain", 40.0, "jobs/s").floor("the floor", spread(50.0));
        assert!(figure.clone().at_least(0.8).target.unwrap().met);
        assert!(!figure.at_least(0.9).target.unwrap().met);
        assert!(Figure::new("W6", "load", 0.5, "%").at_most(1.0).target.unwrap().met);
    }

    #[test]
    fn medians_and_percentiles_are_of_the_sorted_values() {
        let spread = Spread::of(&[3.0, 1.0, 2.0]);
        assert_eq!((spread.median, spread.range), (2.0, (1.0, 3.0)));
        assert_eq!(Spread::of(&[4.0, 1.0]).median, 2.5);
        let values: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        assert_eq!((percentile(&values, 0.5), percentile(&values, 0.99)), (50.0, 99.0));
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
    }
}
