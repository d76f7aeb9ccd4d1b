//! Turns an event into a line of the supervisor's own log.

use std::fmt::{self, Debug, Write as _};
use std::io::{self, Write};

use tracing::Metadata;
use tracing::field::Field;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;

use super::own::OwnLog;
use super::rank::Rank;
use super::value::{cut, may_be_long};
use model::controls_terminal;

/// Makes writers for `tracing`, which writes each event at once. They make lines of it.
pub(super) struct Ways(pub OwnLog, pub MakeLine);

/// The writer for one event.
pub(super) struct Way(OwnLog, Rank, MakeLine);

/// Makes a line of an event as `tracing` has formatted it: [`text_line`] or [`json_line`].
type MakeLine = fn(&str) -> String;

impl<'a> MakeWriter<'a> for Ways {
    type Writer = Way;

    fn make_writer(&'a self) -> Way {
        Way(self.0.clone(), Rank::Matters, self.1)
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Way {
        Way(self.0.clone(), Rank::of(event), self.1)
    }
}

impl Write for Way {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        let line = (self.2)(text.strip_suffix('\n').unwrap_or(&text));
        self.0.add(self.1, (line + "\n").into_bytes());
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a field of an event as text.
pub(super) fn field(out: &mut Writer<'_>, field: &Field, value: &dyn Debug) -> fmt::Result {
    let value = format!("{value:?}");
    match field.name() {
        "message" => out.write_str(&cut("message", &value)),
        name => write!(out, "{name}={}", cut(name, &value)),
    }
}

/// An event becomes one line, whatever its fields contain: an id or a last output line cannot look like another event,
/// and nothing in it controls a terminal.
pub(super) fn text_line(event: &str) -> String {
    let mut line = String::with_capacity(event.len() + 1);
    for c in event.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\t' => line.push(c),
            _ if !controls_terminal(c) => line.push(c),
            _ if (c as u32) < 0x100 => _ = write!(line, "\\x{:02x}", c as u32),
            _ => _ = write!(line, "\\u{{{:x}}}", c as u32),
        }
    }
    line
}

/// An event of JSON with its long texts cut. What controls a terminal stands in texts alone, and is escaped as JSON has it.
pub(super) fn json_line(event: &str) -> String {
    let short = may_be_long(event.as_bytes()).then(|| shorter_json(event)).flatten();
    let event = short.as_deref().unwrap_or(event);
    let mut line = String::with_capacity(event.len() + 1);
    for c in event.chars() {
        // JSON has four digits for a letter; all that controls a terminal has no more.
        if controls_terminal(c) { _ = write!(line, "\\u{:04x}", c as u32) } else { line.push(c) }
    }
    line
}

/// A JSON event with its long texts cut. None if it is not JSON.
fn shorter_json(event: &str) -> Option<String> {
    let mut event: serde_json::Map<String, serde_json::Value> = serde_json::from_str(event).ok()?;
    for (name, value) in &mut event {
        if let serde_json::Value::String(text) = value {
            *text = cut(name, text).into_owned();
        }
    }
    serde_json::to_string(&event).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(text_line("a \u{e4}\tb"), "a \u{e4}\tb");
        assert_eq!(text_line("a\nINFO b\x1b[2J\r"), "a\\nINFO b\\x1b[2J\\x0d");
        assert_eq!(text_line("a\u{9b}2J\u{202e}b\u{2028}"), "a\\x9b2J\\u{202e}b\\u{2028}");
    }

    #[test]
    fn what_controls_a_terminal_leaves_an_event_of_json_as_it_is() {
        let odd = "\u{7f}\u{9b}2J\u{202e}\u{2028}\n\0ä";
        let line = json_line(&serde_json::json!({ "job": odd }).to_string());
        assert!(!line.chars().any(controls_terminal), "{line}");
        let read: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(read["job"], odd);
    }
}
