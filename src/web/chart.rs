//! Charts, drawn on the server as SVG: without a script, and without styles of their own.

use maud::{Markup, html};

/// A part of a bar: its class, its size, its name.
pub type Part<'a> = (&'a str, u64, &'a str);

/// One bar with its parts side by side, as wide as its place.
pub fn stacked(parts: &[Part<'_>]) -> Markup {
    let all: u64 = parts.iter().map(|(_, size, _)| size).sum();
    let said: Vec<String> = parts
        .iter()
        .filter(|(_, size, _)| *size > 0)
        .map(|(_, size, name)| format!("{size} {name}"))
        .collect();
    let mut at = 0.0;
    html! {
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
pub fn progress(fraction: f64, label: &str) -> Markup {
    let done = if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) * 100.0 };
    html! {
        svg.stacked viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label=(label) {
            rect.none x="0" y="0" width="100" height="4" {}
            rect."c-running" x="0" y="0" width=(format!("{done:.2}")) height="4" {}
        }
    }
}
