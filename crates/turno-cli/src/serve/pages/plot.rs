//! Small plots as lines of an SVG. They refuse axes: the text beside them has the numbers.

/// The size of the drawing; the style sheet scales it.
const WIDTH: f64 = 180.0;
const HEIGHT: f64 = 40.0;

/// What a template draws.
pub struct Plot {
    /// Its colour, by a class of the style sheet.
    pub class: &'static str,
    /// What it shows, in words.
    pub label: String,
    /// The points of the line.
    pub line: String,
    /// The path of the area below it.
    pub area: String,
}

impl Plot {
    /// Draws values that were taken at equal distances; the newest is at the right.
    pub fn new(class: &'static str, what: &str, values: &[f64], places: usize) -> Self {
        let max = values.iter().copied().fold(0.0, f64::max);
        let label = match values.last() {
            None => format!("{what}: nothing known yet"),
            Some(last) => format!("{what}: {} now, at most {}", number(*last), number(max)),
        };
        let step = WIDTH / (places.max(2) - 1) as f64;
        let scale = if max > 0.0 { (HEIGHT - 4.0) / max } else { 0.0 };
        let first = places.saturating_sub(values.len());
        let points: Vec<String> = (first..)
            .zip(values)
            .map(|(n, value)| format!("{:.1},{:.1}", n as f64 * step, HEIGHT - 2.0 - value * scale))
            .collect();
        let area = match points.first() {
            None => String::new(),
            Some(_) => {
                let left = first as f64 * step;
                format!("M{left:.1},{HEIGHT} L{} L{WIDTH},{HEIGHT} Z", points.join(" L"))
            }
        };
        Plot { class, label, line: points.join(" "), area }
    }
}

fn number(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_value_is_at_the_right_and_the_largest_at_the_top() {
        let plot = Plot::new("depth", "Ready", &[0.0, 8.0, 4.5], 10);
        assert_eq!(plot.line, "140.0,38.0 160.0,2.0 180.0,17.8");
        assert_eq!(plot.label, "Ready: 4.5 now, at most 8");
        let flat = Plot::new("depth", "Ready", &[0.0; 10], 10);
        assert!(flat.line.starts_with("0.0,38.0 ") && !flat.line.contains("NaN"));
        assert_eq!(Plot::new("depth", "Ready", &[], 10).area, "");
    }
}
