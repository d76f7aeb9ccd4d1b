//! Output for a terminal or a pipe: widths, lines, colours, and no unintended control codes.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use jiff::tz::TimeZone;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

use config::format_duration;
use failure::Failure;
pub use failure::escaped;
use model::{Flood, Millis, Progress};

/// How to draw.
#[derive(Clone, Debug)]
pub struct Look {
    /// Number of columns; None = unlimited.
    pub width: Option<usize>,
    /// Number of lines of a terminal.
    pub height: Option<usize>,
    /// Whether the output is a terminal.
    pub tty: bool,
    /// Lines and marks of ASCII only.
    pub ascii: bool,
    /// Whether states have colours.
    pub color: bool,
    /// Whether equal things are all shown, instead of folded into one line.
    pub all: bool,
    /// The reader's time zone.
    pub zone: TimeZone,
}

impl Look {
    /// The look for stdout and the environment.
    pub fn of_stdout(ascii: bool) -> Self {
        // An empty variable counts as not set, as the rules of NO_COLOR have it.
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let tty = io::stdout().is_terminal();
        // A terminal on a serial line may say that it has 0 columns.
        let size = rustix::termios::tcgetwinsize(io::stdout()).ok().filter(|size| size.ws_col > 0);
        let columns = set("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|columns| *columns > 0);
        let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default();
        let locale = locale.to_ascii_lowercase();
        Look {
            width: columns.or(size.map(|size| usize::from(size.ws_col))),
            height: size.map(|size| usize::from(size.ws_row)),
            tty,
            // A pipe gets UTF-8; a terminal with another encoding does not.
            ascii: ascii || (tty && !locale.contains("utf-8") && !locale.contains("utf8")),
            color: tty && set("NO_COLOR").is_none() && set("TERM").is_some_and(|term| term != "dumb"),
            all: false,
            zone: TimeZone::system(),
        }
    }

    /// A pipe of this width in Greenwich.
    pub fn piped(width: usize) -> Self {
        let zone = TimeZone::UTC;
        Look { width: Some(width), height: None, tty: false, ascii: false, color: false, all: false, zone }
    }

    /// Text cut to the width, with a mark if it was cut.
    pub fn cut<'a>(&self, line: &'a str) -> Cow<'a, str> {
        match self.width {
            Some(width) if line.width() > width => {
                let mark = if self.ascii { '~' } else { '…' };
                // One column less, for the mark.
                let mut left = width.saturating_sub(1);
                let fits = |letter: &char| {
                    let rest = left.checked_sub(letter.width().unwrap_or(1));
                    rest.inspect(|rest| left = *rest).is_some()
                };
                let mut cut: String = line.chars().take_while(fits).collect();
                cut.push(mark);
                cut.into()
            }
            _ => line.into(),
        }
    }

    /// A moment by the reader's clock, with its zone as in RFC 3339: the log has UTC.
    pub fn moment(&self, at: Millis) -> String {
        match jiff::Timestamp::from_millisecond(at.0) {
            Ok(at) => {
                let text = at.to_zoned(self.zone.clone()).strftime("%Y-%m-%d %H:%M:%S%:z").to_string();
                text.strip_suffix("+00:00").map_or(text.clone(), |utc| format!("{utc}Z"))
            }
            Err(_) => format!("{} ms", at.0),
        }
    }
}

/// Longest headline, in bytes: in a pipe no width cuts a line, and a message may have thousands.
const HEADLINE: usize = 300;

/// The line of a message that says most: the last of a Python traceback, which is the error, else the first. It is cut.
pub fn headline(message: &str) -> &str {
    let is_traceback = message.trim_start().starts_with("Traceback (most recent call last)");
    let mut lines = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = if is_traceback { lines.next_back() } else { lines.next() }.unwrap_or_default();
    &line[..line.floor_char_boundary(HEADLINE)]
}

/// Escaped text of several lines; only line ends and tabs keep their meaning.
pub fn escaped_lines(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for (n, line) in text.split('\n').enumerate() {
        if n > 0 {
            out.push('\n');
        }
        for (m, cell) in line.split('\t').enumerate() {
            if m > 0 {
                out.push('\t');
            }
            out.push_str(&escaped(cell));
        }
    }
    out
}

/// Bytes with three digits: `512`, `4.1M`, `1.9G`.
pub fn size(bytes: u64) -> String {
    let mut value = bytes as f64;
    for unit in ["", "K", "M", "G"] {
        // Not 1,024: a fourth digit would widen the column.
        if value < 1000.0 {
            return match unit.is_empty() || value >= 100.0 {
                true => format!("{value:.0}{unit}"),
                false => format!("{value:.1}{unit}"),
            };
        }
        value /= 1024.0;
    }
    format!("{value:.1}T")
}

/// What is told of a job that prints more than its log keeps.
pub fn floods(flood: &Flood) -> String {
    format!("floods its output: {}, of which {} are dropped", size(flood.printed), size(flood.dropped))
}

/// A duration for people: two units, and below ten seconds with tenths.
pub fn age(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds {
        0 if duration.as_millis() < 100 => format!("{}ms", duration.as_millis()),
        0..10 => format!("{:.1}s", duration.as_secs_f64()),
        10..3_600 => format_duration(Duration::from_secs(seconds)),
        3_600..86_400 => format_duration(Duration::from_secs(seconds / 60 * 60)),
        _ => format_duration(Duration::from_secs(seconds / 3_600 * 3_600)),
    }
}

/// The progress of a job: a bar and percents, and the worker's message.
pub fn how_far(progress: &Progress, look: &Look) -> String {
    const WIDTH: usize = 20;
    let bar = progress.fraction.map(|fraction| {
        let (full, empty) = if look.ascii { ("#", ".") } else { ("█", "░") };
        let done = (within(fraction) * WIDTH as f64) as usize;
        format!("{}{} {}", full.repeat(done), empty.repeat(WIDTH - done), percent(fraction))
    });
    let said = progress
        .message
        .as_deref()
        .filter(|message| !message.is_empty())
        .map(|said| escaped(said).into_owned());
    [bar, said].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A fraction as a percentage, rounded down: `100%` means all of it.
pub fn percent(fraction: f64) -> String {
    format!("{:.0}%", (within(fraction) * 100.0).floor())
}

fn within(fraction: f64) -> f64 {
    if fraction.is_nan() { 0.0 } else { fraction.clamp(0.0, 1.0) }
}

/// A table with the names of the columns above them, as wide as needed; the last column may be cut.
pub fn table(look: &Look, heads: &[&str], rows: &[Vec<String>]) -> String {
    Columns::new(heads).lines(look, rows)
}

/// Limit of the columns to which a cell is padded. A longer cell shifts only the rest of its own line.
const WIDEST: usize = 120;

/// A table that is printed in pieces: the names come before the first, and a column only grows.
pub struct Columns {
    widths: Vec<usize>,
    heads: Option<Vec<String>>,
}

impl Columns {
    /// A table with these column names.
    pub fn new(heads: &[&str]) -> Self {
        Columns {
            widths: heads.iter().map(|head| head.width()).collect(),
            heads: Some(heads.iter().map(|head| head.to_string()).collect()),
        }
    }

    /// The next lines.
    pub fn lines(&mut self, look: &Look, rows: &[Vec<String>]) -> String {
        for row in rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = (*width).max(cell.width().min(WIDEST));
            }
        }
        let mut out = String::new();
        for row in self.heads.take().iter().chain(rows) {
            let mut line = String::new();
            for (number, (width, cell)) in self.widths.iter().zip(row).enumerate() {
                line += cell;
                // `{:<width$}` panics beyond 65,535; the last cell needs no padding.
                if number + 1 < row.len() {
                    let missing = width.saturating_sub(cell.width());
                    line.extend(std::iter::repeat_n(' ', missing + 2));
                }
            }
            out += &look.cut(line.trim_end());
            out.push('\n');
        }
        out
    }
}

/// Writes text to stdout.
pub fn print(text: &str) -> Result<(), Failure> {
    print_bytes(text.as_bytes())
}

/// Writes data to stdout as it is.
pub fn print_bytes(data: &[u8]) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    // Flushed here, so that a reader that has gone fails this command and not its exit.
    let written = out.write_all(data).and_then(|()| out.flush());
    written.map_err(|error| Failure::from(error).of("failed to write to stdout"))
}

/// Writes one JSON document and the end of its line.
pub fn print_json(value: &impl serde::Serialize) -> Result<(), Failure> {
    print(&(serde_json::to_string(value)? + "\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(escaped("a\x1b[2J\u{9b}b\u{202e}c\n"), "a\\x1b[2J\\x9bb\\u{202e}c\\n");
        assert_eq!(escaped_lines("a\tb\r\nc\x07"), "a\tb\\x0d\nc\\x07");
        assert_eq!(escaped("größe 漢"), "größe 漢");
    }

    #[test]
    fn headline_is_the_line_that_says_most_and_is_never_long() {
        let traceback = "Traceback (most recent call last):\n  File a\nValueError: no";
        assert_eq!(headline(traceback), "ValueError: no");
        assert_eq!(headline(&"ä".repeat(4000)).len(), HEADLINE);
    }

    #[test]
    fn progress_bar_is_full_only_at_100_percent() {
        let look = Look::piped(80);
        let bar =
            |fraction, message: &str| how_far(&Progress { fraction, message: Some(message.into()) }, &look);
        assert_eq!(bar(Some(0.0), ""), "░░░░░░░░░░░░░░░░░░░░ 0%");
        assert_eq!(bar(Some(0.999), "page\n9"), "███████████████████░ 99% page\\n9");
        assert_eq!(bar(Some(7.0), ""), "████████████████████ 100%");
        assert_eq!(bar(None, "warm"), "warm");
        let ascii = Look { ascii: true, ..look.clone() };
        assert_eq!(
            how_far(&Progress { fraction: Some(0.5), message: None }, &ascii),
            "##########.......... 50%"
        );
    }

    #[test]
    fn table_handles_very_long_cells() {
        let long = "é".repeat(70_000);
        let rows = [[long.as_str(), "b", &long], ["a", "b", "c"]].map(|row| row.map(String::from).to_vec());
        let endless = Look { width: None, ..Look::piped(80) };
        let text = table(&endless, &["A", "B", "C"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], format!("{long}  b  {long}"));
        assert_eq!(lines[2], format!("a{}  b  c", " ".repeat(WIDEST - 1)));
        let narrow = table(&Look::piped(80), &["A", "B", "C"], &rows);
        assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    }

    /// A terminal gives two columns to a letter of Chinese and to an emoji, and none to a combining mark.
    #[test]
    fn columns_are_those_of_the_terminal() {
        let rows =
            ["ascii", "報告書", "e\u{301}te\u{301}", "🚀 los"].map(|name| vec![name.to_owned(), "x".into()]);
        let text = table(&Look::piped(80), &["NAME", "B"], &rows);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines, ["NAME    B", "ascii   x", "報告書  x", "e\u{301}te\u{301}     x", "🚀 los  x"]);
        let cut = |text: &str, width| Look { width: Some(width), ..Look::piped(80) }.cut(text).into_owned();
        assert_eq!(cut("報告書", 6), "報告書");
        assert_eq!([cut("報告書", 5), cut("報告書", 4)], ["報告…", "報…"]);
        assert_eq!(cut("e\u{301}te\u{301}s", 3), "e\u{301}t…");
    }

    #[test]
    fn sizes_and_ages_are_short() {
        let sizes: Vec<String> = [0, 999, 1000, 4_300_000, 2_040_109_465, 5 << 40].map(size).into();
        assert_eq!(sizes, ["0", "999", "1.0K", "4.1M", "1.9G", "5.0T"]);
        let ages: Vec<String> = [5, 1_500, 59_999, 61_000, 3_723_000, 180_000_000]
            .map(|ms| age(Duration::from_millis(ms)))
            .into();
        assert_eq!(ages, ["5ms", "1.5s", "59s", "1m1s", "1h2m", "2d2h"]);
    }
}
