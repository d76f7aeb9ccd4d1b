//! From an event to a line of the supervisor's own log.

use std::io::{self, Write};

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::own::OwnLog;
use super::rank::Rank;

/// A line has no more bytes than this.
const LONGEST: usize = 64 << 10;

/// A text in an event of JSON that is too long as a whole has no more bytes than this.
const LONGEST_TEXT: usize = 4 << 10;

/// For `tracing`, which writes each event at once.
pub(super) struct Ways(pub OwnLog);

/// For one event.
pub(super) struct Way(OwnLog, Rank);

impl<'a> MakeWriter<'a> for Ways {
    type Writer = Way;

    fn make_writer(&'a self) -> Way {
        Way(self.0.clone(), Rank::Matters)
    }

    fn make_writer_for(&'a self, event: &Metadata<'_>) -> Way {
        Way(self.0.clone(), Rank::of(event))
    }
}

impl Write for Way {
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        self.0.add(self.1, one_line(event));
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// An event is one line, whatever is in its fields: an id or a last word cannot pretend to be another event, and nothing in
/// it drives a terminal.
fn one_line(event: &[u8]) -> Vec<u8> {
    let event = event.strip_suffix(b"\n").unwrap_or(event);
    if event.len() > LONGEST
        && let Some(line) = shorter_json(event)
    {
        return line;
    }
    let (event, rest) = event.split_at(event.len().min(LONGEST));
    let mut line = Vec::with_capacity(event.len() + 1);
    for &byte in event {
        match byte {
            b'\n' => line.extend_from_slice(b"\\n"),
            0..b' ' | 0x7f if byte != b'\t' => line.extend_from_slice(format!("\\x{byte:02x}").as_bytes()),
            _ => line.push(byte),
        }
    }
    if !rest.is_empty() {
        line.extend_from_slice(format!(" [{} bytes more]", rest.len()).as_bytes());
    }
    line.push(b'\n');
    line
}

/// An event of JSON with its long texts cut, so that it stays JSON. None if it is none, or stays too long.
fn shorter_json(event: &[u8]) -> Option<Vec<u8>> {
    let mut event: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(event).ok()?;
    for value in event.values_mut() {
        if let serde_json::Value::String(text) = value
            && text.len() > LONGEST_TEXT
        {
            let end = text.floor_char_boundary(LONGEST_TEXT);
            *text = format!("{} [{} bytes more]", &text[..end], text.len() - end);
        }
    }
    let mut line = serde_json::to_vec(&event).ok().filter(|line| line.len() <= LONGEST)?;
    line.push(b'\n');
    Some(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line() {
        assert_eq!(one_line("a \u{e4}\tb\n".as_bytes()), "a \u{e4}\tb\n".as_bytes());
        assert_eq!(one_line(b"a\nINFO b\x1b[2J\r\n"), b"a\\nINFO b\\x1b[2J\\x0d\n");
    }

    #[test]
    fn a_line_has_an_end() {
        let line = one_line(&vec![b'x'; 10 << 20]);
        assert_eq!(line.len(), LONGEST + " [10420224 bytes more]\n".len());
    }

    #[test]
    fn an_event_of_json_that_is_too_long_stays_json() {
        let event = serde_json::json!({"level": "WARN", "job": "7", "message": "ä".repeat(1 << 20)});
        let line = one_line(format!("{event}\n").as_bytes());
        let cut: serde_json::Value = serde_json::from_slice(&line).unwrap();
        assert_eq!((&cut["level"], &cut["job"]), (&"WARN".into(), &"7".into()));
        let end = format!("ä [{} bytes more]", (2 << 20) - LONGEST_TEXT);
        assert!(cut["message"].as_str().unwrap().ends_with(&end));
    }
}
