//! Charts, drawn on the server as SVG: without a script, and without styles of their own.

use maud::{Markup, html};

/// A part of a bar: its class, its size, its name.
pub(crate) type Part<'a> = (&'a str, u64, &'a str);

/// One bar with its parts side by side, as wide as its place.
pub(crate) fn stacked(parts: &[Part<'_>]) -> Markup {
    let all: u64 = parts.iter().map(|(_, size, _)| size).sum();
    let said: Vec<String> = parts
        .iter()
        .filter(|(_, size, _)| *size > 0)
        .map(|(_, size, name)| format!("{size} {name}"))
        .collect();
    let mut at = 0.0;
    html! {
        // Sizes are attributes, as the policy of the page allows no inline style.
        svg.stacked viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label=(said.join(", ")) {
            rect.none x="0" y="0" width="100" height="4" {}
            @for (class, size, _) in parts.iter().filter(|(_, size, _)| *size > 0) {
                @let width = *size as f64 * 100.0 / all.max(1) as f64;
                rect class={ "c-" (class) } x=(format!("{at:.2}")) y="0" width=(format!("{width:.2}")) height="4" {}
                ({ at += width; "" })
            }
        }
    }
}

/// A progress bar. `fraction` is 0 to 1; `label` is read out by screen readers.
pub(crate) fn progress(fraction: f64, label: &str) -> Markup {
    // `clamp` leaves NaN, which SVG refuses.
    let done = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) * 100.0 };
    html! {
        svg.stacked viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.none x="0" y="0" width="100" height="4" {}
            rect."c-running" x="0" y="0" width=(format!("{done:.2}")) height="4" {}
        }
    }
}

/// Height of a graph in its own units; a column is one unit wide.
const HEIGHT: f64 = 40.0;

/// How a part of a graph is drawn, and what it is called.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mark {
    class: &'static str,
    name: &'static str,
}

impl Mark {
    /// A mark that `.c-CLASS` fills, or `.l-CLASS` draws.
    pub(crate) fn new(class: &'static str, name: &'static str) -> Mark {
        Mark { class, name }
    }

    /// Its name in the legend and in the text of a chart.
    pub(crate) fn name(&self) -> &'static str {
        self.name
    }
}

/// A graph of columns over time: bars on one another, and lines.
pub(crate) struct Graph {
    title: String,
    /// What it shows, in words.
    said: String,
    first: String,
    /// What stands under its right end.
    pub last: String,
    bars: Vec<(Mark, Vec<Option<f64>>)>,
    lines: Vec<(Mark, Vec<Option<f64>>)>,
}

impl Graph {
    /// An empty one; `first` stands under its left end.
    pub(crate) fn new(title: String, said: String, first: &str) -> Graph {
        Graph { title, said, first: first.into(), last: "now".into(), bars: Vec::new(), lines: Vec::new() }
    }

    /// Puts bars on those that are there. All have as many columns.
    pub(crate) fn bars(&mut self, mark: Mark, heights: Vec<Option<f64>>) {
        self.bars.push((mark, heights));
    }

    /// Draws a line, with gaps where there are no values.
    pub(crate) fn line(&mut self, mark: Mark, heights: Vec<Option<f64>>) {
        self.lines.push((mark, heights));
    }

    /// The highest point.
    fn most(&self) -> f64 {
        let columns = self.bars.iter().map(|(_, heights)| heights.len()).max().unwrap_or(0);
        let stacked = (0..columns).map(|at| {
            self.bars.iter().filter_map(|(_, heights)| heights.get(at).copied().flatten()).sum::<f64>()
        });
        let lines = self.lines.iter().flat_map(|(_, heights)| heights.iter().copied().flatten());
        stacked.chain(lines).fold(0.0, f64::max)
    }

    /// Draws it; `figure` writes its highest value, or nothing.
    pub(crate) fn draw(&self, figure: impl Fn(f64) -> String) -> Markup {
        let most = self.most();
        // One unit is left free: half the width of a line at the top and at the bottom.
        let scale = if most > 0.0 { (HEIGHT - 1.0) / most } else { 0.0 };
        let columns =
            self.bars.iter().chain(&self.lines).map(|(_, heights)| heights.len()).max().unwrap_or(1);
        let mut below = vec![0.0; columns];
        html! {
            figure.chart {
                figcaption {
                    strong { (self.title) }
                    @for (mark, _) in &self.bars { span.key { (swatch(mark, true)) (mark.name) } }
                    @for (mark, _) in &self.lines { span.key { (swatch(mark, false)) (mark.name) } }
                    @let most = Some(most).filter(|most| *most > 0.0).map(&figure).filter(|most| !most.is_empty());
                    span.most { @if let Some(most) = most { "up to " (most) } }
                }
                svg.graph viewBox={ "0 0 " (columns) " " (HEIGHT) } preserveAspectRatio="none" role="img" aria-label={ (self.title) ": " (self.said) } {
                    @for (mark, heights) in &self.bars { path class={ "c-" (mark.class) } d=(bars(heights, &mut below, scale)) {} }
                    @for (mark, heights) in &self.lines { path class={ "line l-" (mark.class) } d=(line(heights, scale)) {} }
                }
                div.axis aria-hidden="true" { span { (self.first) } span { (self.last) } }
            }
        }
    }
}

fn swatch(mark: &Mark, is_bar: bool) -> Markup {
    html! {
        svg.swatch viewBox="0 0 16 8" aria-hidden="true" {
            @if is_bar { rect class={ "c-" (mark.class) } x="2" width="8" height="8" {} }
            @else { path class={ "line l-" (mark.class) } d="M0 4H16" {} }
        }
    }
}

/// The bars as one path, on those below.
fn bars(heights: &[Option<f64>], below: &mut [f64], scale: f64) -> String {
    let mut path = String::new();
    for (at, height) in heights.iter().enumerate() {
        let height = height.unwrap_or(0.0) * scale;
        if height > 0.0 {
            // A bar of one among thousands can be seen, too.
            let (bottom, height) = (HEIGHT - below[at], height.max(0.6));
            path += &format!("M{at}.1 {bottom:.1}v-{height:.1}h.8v{height:.1}z");
            below[at] += height;
        }
    }
    path
}

/// A line through the middles of its columns. A single one is as long as its column.
fn line(heights: &[Option<f64>], scale: f64) -> String {
    let (mut path, mut is_open) = (String::new(), false);
    for (at, height) in heights.iter().enumerate() {
        let Some(height) = height else {
            is_open = false;
            continue;
        };
        let y = HEIGHT - 0.5 - height * scale;
        let is_alone = !is_open && heights.get(at + 1).copied().flatten().is_none();
        path += &match (is_open, is_alone) {
            (true, _) => format!("L{at}.5 {y:.1}"),
            (false, true) => format!("M{at} {y:.1}h1"),
            (false, false) => format!("M{at}.5 {y:.1}"),
        };
        is_open = true;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_stand_on_one_another_and_lines_have_gaps() {
        let mut below = [0.0; 3];
        assert_eq!(bars(&[Some(1.0), None, Some(0.0)], &mut below, 10.0), "M0.1 40.0v-10.0h.8v10.0z");
        assert_eq!(
            bars(&[Some(2.0), Some(1.0), None], &mut below, 10.0),
            "M0.1 30.0v-20.0h.8v20.0zM1.1 40.0v-10.0h.8v10.0z"
        );
        assert_eq!(line(&[Some(0.0), Some(1.0), None, Some(2.0)], 10.0), "M0.5 39.5L1.5 29.5M3 19.5h1");
    }

    #[test]
    fn a_graph_says_what_it_shows_and_how_high_it_is() {
        let mut graph = Graph::new("Jobs a minute".into(), "3 complete".into(), "1h ago");
        graph.bars(Mark::new("complete", "complete"), vec![Some(1.0), Some(2.0)]);
        graph.bars(Mark::new("failed", "failed"), vec![Some(3.0), None]);
        graph.line(Mark::new("put", "put"), vec![Some(1.0), Some(0.0)]);
        let drawn = graph.draw(|most| format!("{most}")).into_string();
        for part in [
            "aria-label=\"Jobs a minute: 3 complete\"",
            "up to 4",
            "class=\"c-failed\"",
            "line l-put",
            "1h ago",
        ] {
            assert!(drawn.contains(part), "{part}: {drawn}");
        }
        let empty = Graph::new(String::new(), String::new(), "").draw(|_| "NaN".into()).into_string();
        assert!(!empty.contains("NaN"), "{empty}");
    }
}
