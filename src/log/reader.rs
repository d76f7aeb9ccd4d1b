//! Reads the output of a job in pieces of bounded size: from any offset, by stream, attempt and time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::index::{Mark, Piece, Source, beside, pieces};
use super::output_retention::removed_until;
use model::Millis;

/// Limit of the bytes of one read.
const CHUNK: usize = 64 << 10;

/// A read of fewer bytes costs as much as one of this number.
const SHORT: usize = 64;

/// Milliseconds by which the store's clock and that of the files may differ, generously.
const CLOCKS_APART: i64 = 60_000;

/// Which part of a job's output to read; without a field, all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Only what was printed to this stream.
    pub stream: Option<Source>,
    /// Only the output of this attempt.
    pub attempt: Option<u32>,
    /// Only what was read from the job at this time or later.
    pub since: Option<Millis>,
    /// Only what was read from the job before this time.
    pub until: Option<Millis>,
}

/// A part of the output, all of one mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// Offset of its first byte in the output.
    pub from: u64,
    /// When, in which attempt and to which stream it was printed.
    pub mark: Mark,
    /// What was printed.
    pub bytes: Vec<u8>,
}

/// Reads one output. Holds 64 KiB of it at most, and 2 MiB of its records.
pub struct Reader {
    root: PathBuf,
    log: PathBuf,
    selection: Selection,
    file: Option<File>,
    at: u64,
    /// Offset at which to stop.
    until: u64,
    found: bool,
    pieces: Vec<Piece>,
    /// Inode, length and time of the file of records that `pieces` are of.
    read: Option<(u64, u64, i64, i64)>,
}

/// A search for the last lines of an output: see [`Reader::search`].
pub struct LastLines {
    /// Lines whose beginning is still to be found.
    left: usize,
    /// Whether there was output behind.
    seen: bool,
    /// Where what has been searched begins; None before the first step.
    end: Option<u64>,
}

impl LastLines {
    /// For this number of lines.
    pub fn new(lines: usize) -> LastLines {
        LastLines { left: lines, seen: false, end: None }
    }

    /// Where in these bytes the lines begin, if it is there.
    fn look(&mut self, bytes: &[u8]) -> Option<usize> {
        for (at, byte) in bytes.iter().enumerate().rev() {
            // The end of the last line begins no other.
            self.left -= usize::from(*byte == b'\n' && self.seen);
            if self.left == 0 {
                return Some(at + 1);
            }
            self.seen = true;
        }
        None
    }
}

impl Selection {
    /// Whether the selection includes output with this mark; None if that is not known, as it was not recorded.
    pub fn takes(&self, mark: Mark) -> Option<bool> {
        let is_early = self.since.is_some_and(|since| mark.at.0 < since.0);
        if is_early || self.until.is_some_and(|until| mark.at.0 >= until.0) {
            return Some(false);
        }
        let stream = self.stream.map(|wanted| match mark.source {
            Source::Unknown => None,
            Source::Stdout | Source::Stderr => Some(mark.source == wanted),
        });
        let attempt = self.attempt.map(|wanted| (mark.attempt > 0).then_some(mark.attempt == wanted));
        let known = || [stream, attempt].into_iter().flatten();
        if known().any(|takes| takes == Some(false)) {
            Some(false)
        } else {
            // `None`, which is not known, is the least.
            known().min().unwrap_or(Some(true))
        }
    }
}

impl Reader {
    /// For the output in the file `log` below `root`, the directory of all output. Opens nothing yet.
    pub fn new(root: PathBuf, log: PathBuf) -> Reader {
        let (selection, pieces) = (Selection::default(), Vec::new());
        Reader { root, log, selection, file: None, at: 0, until: u64::MAX, found: false, pieces, read: None }
    }

    /// Reads only what is selected, from this offset on, and of that at most `limit` bytes. Output that has become
    /// shorter than the offset was emptied: it is read from its beginning.
    pub fn select(&mut self, selection: Selection, from: u64, limit: Option<u64>) {
        self.selection = selection;
        self.at = from;
        self.until = limit.map_or(u64::MAX, |limit| from.saturating_add(limit));
    }

    /// Offset of what comes next.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Whether there ever was a file.
    pub fn found(&self) -> bool {
        self.found
    }

    /// Gives what [`removed_since`] says of its directory.
    pub fn removed_since(&self, put_at: Millis) -> Option<Millis> {
        removed_since(&self.root, put_at)
    }

    /// The selected part of the next bytes, which may be nothing; None at the end of what there is now.
    pub fn next_parts(&mut self) -> io::Result<Option<Vec<Part>>> {
        let Some((from, bytes)) = self.read()? else { return Ok(None) };
        self.at = from + bytes.len() as u64;
        self.divide(from, &bytes).map(Some)
    }

    /// Goes to the beginning of the last selected lines. Reads backwards until it has found them.
    pub fn to_last_lines(&mut self, lines: usize) -> io::Result<()> {
        let mut search = LastLines::new(lines);
        while !self.search(&mut search)? {}
        Ok(())
    }

    /// Takes a step of a search: reads 64 KiB backwards, at most. Gives whether it is over; the reader is at the
    /// beginning of the lines then.
    pub fn search(&mut self, search: &mut LastLines) -> io::Result<bool> {
        let mut end = match search.end {
            Some(end) => end,
            None => {
                let Some(end) = self.begin_search()? else { return Ok(true) };
                end
            }
        };
        if search.left == 0 {
            self.at = end;
            return Ok(true);
        }
        let mut room = CHUNK;
        let last = self.pieces.partition_point(|piece| piece.offset < end);
        for piece in self.pieces[..last].iter().rev() {
            if end <= self.at {
                break;
            }
            let first = piece.offset.max(self.at);
            if self.selection.takes(piece.mark) != Some(false) {
                let begin = end.saturating_sub(room as u64).max(first);
                let bytes = self.bytes(begin, (end - begin) as usize)?;
                if let Some(at) = search.look(&bytes) {
                    self.at = begin + at as u64;
                    return Ok(true);
                }
                // Each piece is a read of its own, however short it is.
                room = room.saturating_sub(((end - begin) as usize).max(SHORT));
                end = begin;
                if room == 0 {
                    search.end = Some(end);
                    return Ok(end <= self.at);
                }
            }
            end = end.min(first);
        }
        Ok(true)
    }

    /// Where the last lines end; None if there is no output.
    fn begin_search(&mut self) -> io::Result<Option<u64>> {
        if !self.open()? {
            return Ok(None);
        }
        let Some(len) = self.len()? else { return Ok(None) };
        if len < self.at {
            self.restart();
        }
        self.look_up(len)?;
        Ok(Some(len.min(self.until)))
    }

    /// The next bytes with their offset. A removed file is read to its end, and then the next of its name.
    fn read(&mut self) -> io::Result<Option<(u64, Vec<u8>)>> {
        for _ in 0..2 {
            if !self.open()? {
                return Ok(None);
            }
            // The file was emptied: its present content is new.
            if self.len()?.is_some_and(|len| len < self.at) {
                self.restart();
            }
            let room = self.until.saturating_sub(self.at).min(CHUNK as u64) as usize;
            let mut bytes = self.bytes(self.at, room)?;
            if !bytes.is_empty() {
                bytes.truncate(whole(&bytes));
                return Ok(Some((self.at, bytes)));
            }
            let is_there =
                self.file.as_ref().is_none_or(|file| file.metadata().is_ok_and(|it| it.nlink() > 0));
            if room == 0 || is_there {
                return Ok(None);
            }
            self.file = None;
            self.restart();
        }
        Ok(None)
    }

    /// Goes to the beginning of other content. Of that, too, it reads no more than the limit leaves.
    fn restart(&mut self) {
        self.until -= self.at;
        self.at = 0;
    }

    /// Opens the file unless it is open; gives whether it is.
    fn open(&mut self) -> io::Result<bool> {
        if self.file.is_some() {
            return Ok(true);
        }
        let mut options = OpenOptions::new();
        // Neither a link nor a pipe is an output, whoever may have put it there.
        options.read(true).custom_flags(nix::libc::O_NOFOLLOW | nix::libc::O_NONBLOCK);
        match options.open(&self.log) {
            Ok(file) if file.metadata()?.is_file() => self.file = Some(file),
            Ok(_) => return Err(io::Error::new(ErrorKind::InvalidInput, "it is not a file")),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        }
        self.found = true;
        Ok(true)
    }

    fn len(&self) -> io::Result<Option<u64>> {
        self.file.as_ref().map(|file| file.metadata().map(|found| found.len())).transpose()
    }

    /// Up to so many bytes at an offset.
    fn bytes(&self, at: u64, room: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; room];
        let mut count = 0;
        while let Some(file) = self.file.as_ref().filter(|_| count < room) {
            match file.read_at(&mut bytes[count..], at + count as u64) {
                Ok(0) => break,
                Ok(read) => count += read,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.truncate(count);
        Ok(bytes)
    }

    /// Reads the records again if they have changed, for output up to `end`.
    fn look_up(&mut self, end: u64) -> io::Result<()> {
        let stamp = fs::symlink_metadata(beside(&self.log))
            .ok()
            .map(|it| (it.ino(), it.len(), it.mtime(), it.mtime_nsec()));
        if stamp.is_some() && stamp == self.read && !self.pieces.is_empty() {
            return Ok(());
        }
        let new = pieces(&self.root, &self.log)?;
        // A record is written before its piece of output. If the file was emptied or removed since these bytes were read,
        // the new records are of others: the earlier ones hold.
        let is_same = self.len()?.is_some_and(|len| len >= end);
        match new.filter(|_| is_same) {
            Some(new) => (self.pieces, self.read) = (new, stamp),
            None if self.pieces.is_empty() => {
                self.pieces = vec![Piece { offset: 0, mark: Mark::unknown(Millis(0)) }]
            }
            None => {}
        }
        Ok(())
    }

    /// The selected parts of these bytes.
    fn divide(&mut self, from: u64, bytes: &[u8]) -> io::Result<Vec<Part>> {
        let end = from + bytes.len() as u64;
        self.look_up(end)?;
        let first = self.pieces.partition_point(|piece| piece.offset <= from).saturating_sub(1);
        let ends = self.pieces[first..].iter().skip(1).map(|next| next.offset).chain([u64::MAX]);
        let mut parts = Vec::new();
        for (piece, until) in self.pieces[first..].iter().zip(ends) {
            let (begin, until) = (piece.offset.max(from), until.min(end));
            if piece.offset >= end {
                break;
            }
            if begin < until && self.selection.takes(piece.mark) != Some(false) {
                let bytes = bytes[(begin - from) as usize..(until - from) as usize].to_vec();
                parts.push(Part { from: begin, mark: piece.mark, bytes });
            }
        }
        Ok(parts)
    }
}

/// Until when output was removed from the directory of all, if that may have been output of a job that was put at this
/// time.
pub fn removed_since(root: &Path, put_at: Millis) -> Option<Millis> {
    removed_until(root).filter(|until| put_at.0 <= until.0.saturating_add(CLOCKS_APART))
}

/// How many of these bytes to take so that no character is cut at their end; all, if they are no text.
fn whole(bytes: &[u8]) -> usize {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 => error.valid_up_to(),
        Ok(_) | Err(_) => bytes.len(),
    }
}

#[cfg(test)]
#[path = "reader_tests.rs"]
mod tests;
