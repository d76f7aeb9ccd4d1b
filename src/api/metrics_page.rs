//! Writes the text of `/metrics` in Prometheus format.

use std::fmt::{Display, Write as _};

/// The text written so far.
#[derive(Default)]
pub(super) struct Page(pub(super) String);

impl Page {
    pub(super) fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = write!(self.0, "# HELP taskvisor_{name} {help}\n# TYPE taskvisor_{name} {kind}\n");
    }

    pub(super) fn one(&mut self, name: &str, kind: &str, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    pub(super) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let _ = write!(self.0, "taskvisor_{name}");
        for (at, (label, value)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if at == 0 { '{' } else { ',' });
            value.chars().for_each(|letter| escape(&mut self.0, letter));
            self.0.push('"');
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{end} {value}");
    }
}

fn escape(out: &mut String, letter: char) {
    // All that the text format escapes in the value of a label.
    match letter {
        '\\' => out.push_str("\\\\"),
        '"' => out.push_str("\\\""),
        '\n' => out.push_str("\\n"),
        other => out.push(other),
    }
}
