//! Turns an event into a line of the supervisor's own log.

use std::io::{self, Write};

use tracing::Metadata;
use tracing_subscriber::fmt::MakeWriter;

use super::own::OwnLog;
use super::rank::Rank;

/// Longest line, in bytes.
const LONGEST: usize = 64 << 10;

/// Longest text in a JSON event that is too long as a whole, in bytes.
const LONGEST_TEXT: usize = 4 << 10;

/// Makes writers for `tracing`, which writes each event at once.
pub(super) struct Ways(pub OwnLog);

/// The writer for one event.
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

/// An event becomes one line, whatever its fields contain: an id or a last output line cannot look like another event,
/// and nothing in it controls a terminal.
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

/// A JSON event with its long texts cut, so that it stays valid. None if it is not JSON, or is still too long.
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
    fn long_log_line_is_truncated() {
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
