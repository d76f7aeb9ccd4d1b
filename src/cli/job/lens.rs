//! Selects the part of a job's output that `job logs` shows, and what it writes before each line.

use std::path::PathBuf;

use crate::cli::args::JobLogs;
use crate::cli::args::job::Stream;
use config::{Config, logs as logs_of};
use failure::Failure;
use log::{Mark, Piece, Source, pieces};
use model::{JobId, Millis};

/// The selection that was asked for.
#[derive(Clone, Debug, Default)]
struct Wanted {
    timestamps: bool,
    stream: Option<Stream>,
    attempt: Option<u32>,
    since: Option<Millis>,
    until: Option<Millis>,
}

/// Selects pieces and marks lines.
pub struct Lens {
    wanted: Wanted,
    root: PathBuf,
    log: PathBuf,
    pieces: Vec<Piece>,
    /// The mark of an unfinished line.
    begun: Option<Mark>,
    /// Whether something is shown though it is not known if it was asked for.
    unknown: bool,
}

impl Lens {
    /// None if all output is shown as it was printed.
    pub fn new(config: &Config, id: &JobId, args: &JobLogs) -> Option<Lens> {
        let JobLogs { timestamps, stream, attempt, since, until, .. } = *args;
        let is_plain =
            !timestamps && stream.is_none() && attempt.is_none() && since.is_none() && until.is_none();
        let wanted = Wanted { timestamps, stream, attempt, since, until };
        let (root, log) = (logs_of(&config.state_dir), config.log_file(id));
        let lens = Lens { wanted, root, log, pieces: Vec::new(), begun: None, unknown: false };
        (!is_plain).then_some(lens)
    }

    /// The part to show of these bytes, which begin at `offset` of the output.
    pub fn show(&mut self, offset: u64, bytes: &[u8]) -> Result<Vec<u8>, Failure> {
        let end = offset + bytes.len() as u64;
        // A record is written before its piece of output.
        let read = pieces(&self.root, &self.log).map_err(|error| {
            Failure::from(error).of(format!("failed to read when {} was written", self.log.display()))
        })?;
        // The file was removed meanwhile: earlier records still hold.
        self.pieces = read.unwrap_or_else(|| std::mem::take(&mut self.pieces));
        let (mut out, ends) = (Vec::new(), self.pieces.iter().skip(1).map(|next| next.offset));
        let ends: Vec<u64> = ends.chain([u64::MAX]).collect();
        for (piece, until) in self.pieces.clone().into_iter().zip(ends) {
            let (from, to) = (piece.offset.max(offset), until.min(end));
            if from < to {
                let part = &bytes[(from - offset) as usize..(to - offset) as usize];
                self.add(&mut out, piece.mark, part);
            }
        }
        Ok(out)
    }

    /// A remark for the end of the output, if there is one.
    pub fn remark(&self) -> Option<&'static str> {
        self.unknown.then_some(
            "of some of this output neither stream nor attempt was recorded: it is shown, whatever was asked for",
        )
    }

    fn add(&mut self, out: &mut Vec<u8>, mark: Mark, part: &[u8]) {
        match self.wanted.takes(mark) {
            Some(false) => return,
            Some(true) => {}
            None => self.unknown = true,
        }
        if !self.wanted.timestamps {
            return out.extend_from_slice(part);
        }
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

impl Wanted {
    /// Whether the selection includes it; None if that is not known.
    fn takes(&self, mark: Mark) -> Option<bool> {
        let is_late = self.since.is_some_and(|since| mark.at.0 < since.0);
        if is_late || self.until.is_some_and(|until| mark.at.0 >= until.0) {
            return Some(false);
        }
        let known = [
            self.stream.map(|wanted| match mark.source {
                Source::Stdout => Some(wanted == Stream::Stdout),
                Source::Stderr => Some(wanted == Stream::Stderr),
                Source::Unknown => None,
            }),
            self.attempt.map(|wanted| (mark.attempt > 0).then_some(mark.attempt == wanted)),
        ];
        let known = || known.into_iter().flatten();
        if known().any(|takes| takes == Some(false)) {
            Some(false)
        } else {
            // None is the least: what is not known of one choice is not known of all.
            known().min().unwrap_or(Some(true))
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

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(at: i64, attempt: u32, source: Source) -> Mark {
        Mark { at: Millis(1_790_000_000_000 + at), attempt, source }
    }

    fn shown(wanted: Wanted) -> (String, bool) {
        let (root, log) = (PathBuf::new(), PathBuf::new());
        let mut lens = Lens { wanted, root, log, pieces: Vec::new(), begun: None, unknown: false };
        let mut out = Vec::new();
        let said = [
            (mark(1, 1, Source::Stdout), "one\ntw"),
            (mark(2, 1, Source::Stderr), "bad\n"),
            (mark(3, 1, Source::Stdout), "o\n"),
            (mark(9, 2, Source::Stdout), "three\n"),
            (mark(10, 0, Source::Unknown), "old\n"),
        ];
        said.into_iter().for_each(|(mark, part)| lens.add(&mut out, mark, part.as_bytes()));
        (String::from_utf8(out).unwrap(), lens.remark().is_some())
    }

    #[test]
    fn output_is_selected_by_stream_attempt_and_time() {
        let of = |wanted: Wanted| shown(wanted).0;
        let stream = |stream| Wanted { stream: Some(stream), ..Wanted::default() };
        assert_eq!(of(stream(Stream::Stdout)), "one\ntwo\nthree\nold\n");
        assert_eq!(shown(stream(Stream::Stderr)), ("bad\nold\n".into(), true));
        let attempt = Wanted { attempt: Some(1), ..stream(Stream::Stdout) };
        assert_eq!(of(attempt), "one\ntwo\nold\n");
        let at = |at: i64| Some(mark(at, 0, Source::Stdout).at);
        let between = Wanted { since: at(2), until: at(9), ..Wanted::default() };
        assert_eq!(shown(between), ("bad\no\n".into(), false));
    }

    #[test]
    fn lines_have_their_time_and_mix_no_streams() {
        let lines = "2026-09-21T14:13:20.001Z stdout one\n2026-09-21T14:13:20.001Z stdout tw\n\
                     2026-09-21T14:13:20.002Z stderr bad\n2026-09-21T14:13:20.003Z stdout o\n\
                     2026-09-21T14:13:20.009Z stdout three\n2026-09-21T14:13:20.010Z ?      old\n";
        assert_eq!(shown(Wanted { timestamps: true, ..Wanted::default() }), (lines.into(), false));
    }
}
