//! Prints parts of a job's output, and what `job logs` writes before each line.

use std::io::{self, IsTerminal, Write};

use crate::cli::args::JobLogs;
use crate::cli::args::job::Stream;
use crate::cli::term::screen::{escaped_lines, print, print_bytes};
use failure::Failure;
use log::{Mark, Selection, Source};

/// The part of the output that was asked for.
pub(super) fn selection(args: &JobLogs) -> Selection {
    let stream = args.stream.map(|stream| match stream {
        Stream::Stdout => Source::Stdout,
        Stream::Stderr => Source::Stderr,
    });
    Selection { stream, attempt: args.attempt, since: args.since, until: args.until }
}

/// Prints parts in order.
pub(crate) struct Lens {
    selection: Selection,
    timestamps: bool,
    /// Whether what was printed to stderr goes to stderr.
    apart: bool,
    tty: bool,
    /// The mark of an unfinished line.
    begun: Option<Mark>,
    /// The beginning of a character whose end has not come yet.
    cut: Vec<u8>,
    /// Whether something is shown though it is not known if it was asked for.
    unknown: bool,
}

impl Lens {
    pub(crate) fn new(args: &JobLogs) -> Lens {
        let tty = io::stdout().is_terminal();
        let (selection, timestamps) = (selection(args), args.timestamps);
        Lens { selection, timestamps, apart: false, tty, begun: None, cut: Vec::new(), unknown: false }
    }

    /// Prints all of it, each stream to the same one.
    pub(crate) fn apart() -> Lens {
        let (selection, tty) = (Selection::default(), io::stdout().is_terminal());
        Lens { selection, timestamps: false, apart: true, tty, begun: None, cut: Vec::new(), unknown: false }
    }

    /// Prints a part that was selected.
    pub(crate) fn show(&mut self, mark: Mark, part: &[u8]) -> Result<(), Failure> {
        let mut stamped = Vec::new();
        let bytes = match self.timestamps {
            true => {
                self.stamp(&mut stamped, mark, part);
                &stamped
            }
            false => part,
        };
        if self.apart && mark.source == Source::Stderr {
            let escaped = escaped_lines(&String::from_utf8_lossy(bytes));
            let bytes = if io::stderr().is_terminal() { escaped.as_bytes() } else { bytes };
            io::stderr().write_all(bytes)?;
            return Ok(());
        }
        self.unknown |= self.selection.takes(mark).is_none();
        if self.tty {
            self.cut.extend_from_slice(bytes);
            print(&shown(&mut self.cut))
        } else {
            print_bytes(bytes)
        }
    }

    /// Writes the bytes that never became a character, and a remark if there is one.
    pub(crate) fn finish(&self) -> Result<(), Failure> {
        if self.unknown {
            writeln!(
                io::stderr(),
                "of some of this output neither stream nor attempt was recorded: it is shown, whatever was asked for"
            )?;
        }
        print(&escaped_lines(&String::from_utf8_lossy(&self.cut)))
    }

    /// Writes a mark before each line.
    fn stamp(&mut self, out: &mut Vec<u8>, mark: Mark, part: &[u8]) {
        for line in part.split_inclusive(|&byte| byte == b'\n') {
            let goes_on = |begun: Mark| (begun.source, begun.attempt) == (mark.source, mark.attempt);
            if !self.begun.is_some_and(goes_on) {
                // Output of another stream comes between.
                out.extend(self.begun.map(|_| b'\n'));
                out.extend_from_slice(stamp(mark).as_bytes());
            }
            out.extend_from_slice(line);
            self.begun = (!line.ends_with(b"\n")).then_some(mark);
        }
    }
}

/// The time in UTC, as in the supervisor's log.
fn stamp(Mark { at, source, .. }: Mark) -> String {
    let at = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    let source = match source {
        Source::Stdout => "stdout",
        Source::Stderr => "stderr",
        Source::Unknown => "?     ",
    };
    format!("{at:.3} {source} ")
}

/// Takes whole characters from the front and escapes them for a terminal.
fn shown(bytes: &mut Vec<u8>) -> String {
    let whole = match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() => error.valid_up_to(),
        // There is a wrong byte before the end. A cut character at the very end is then shown as wrong too, which is
        // rare and harmless.
        Ok(_) | Err(_) => bytes.len(),
    };
    let text = escaped_lines(&String::from_utf8_lossy(&bytes[..whole]));
    bytes.drain(..whole);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::Millis;

    fn mark(at: i64, attempt: u32, source: Source) -> Mark {
        Mark { at: Millis(1_790_000_000_000 + at), attempt, source }
    }

    #[test]
    fn lines_have_their_time_and_mix_no_streams() {
        let mut lens = Lens {
            selection: Selection::default(),
            timestamps: true,
            apart: false,
            tty: false,
            begun: None,
            cut: Vec::new(),
            unknown: false,
        };
        let mut out = Vec::new();
        let said = [
            (mark(1, 1, Source::Stdout), "one\ntw"),
            (mark(2, 1, Source::Stderr), "bad\n"),
            (mark(3, 1, Source::Stdout), "o\n"),
            (mark(9, 2, Source::Stdout), "three\n"),
            (mark(10, 0, Source::Unknown), "old\n"),
        ];
        said.into_iter().for_each(|(mark, part)| lens.stamp(&mut out, mark, part.as_bytes()));
        let lines = "2026-09-21T14:13:20.001Z stdout one\n2026-09-21T14:13:20.001Z stdout tw\n\
                     2026-09-21T14:13:20.002Z stderr bad\n2026-09-21T14:13:20.003Z stdout o\n\
                     2026-09-21T14:13:20.009Z stdout three\n2026-09-21T14:13:20.010Z ?      old\n";
        assert_eq!(String::from_utf8(out).unwrap(), lines);
    }

    #[test]
    fn character_split_across_reads_is_shown_whole() {
        let mut bytes = b"a\x1b\xc3".to_vec();
        assert_eq!(shown(&mut bytes), "a\\x1b");
        bytes.push(0xa9);
        assert_eq!(shown(&mut bytes), "é");
        bytes.extend(b"\xff\n");
        assert_eq!(shown(&mut bytes), "\u{fffd}\n");
    }
}
