//! When each piece of a job's output was written, in which attempt and to which stream: a small file beside the output,
//! which stays as it was printed.
//!
//! Output without such a file was written at one time, to stdout, in the first attempt. Otherwise the file has a record
//! for each piece, written before the piece.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::private::write_private;
use model::Millis;

/// Bytes of one record.
const SIZE: usize = 16;

/// Limit of the records of one job: 1 MiB. Output after the last record is not told apart by stream.
const MOST: u64 = 1 << 16;

/// Milliseconds after which a continuing stream begins another piece. The time doubles with each `GRAINS` records, so
/// that a job that prints for a month has enough of them.
const GRAIN: i64 = 10;
const GRAINS: u64 = 4096;

/// The file that says since when there are records.
const SINCE: &str = "indexed";

/// The source of a piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Printed to stdout.
    Stdout,
    /// Printed to stderr, or sent in its worker's `log` lines.
    Stderr,
    /// The stream was not recorded.
    Unknown,
}

/// The record of a piece of output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When the supervisor read it.
    pub at: Millis,
    /// The attempt; 0 = not recorded.
    pub attempt: u32,
    /// The source of the piece.
    pub source: Source,
}

/// A piece of output, which ends where the next begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    /// Bytes of the job's output before this piece.
    pub offset: u64,
    /// When, in which attempt and to which stream it was printed.
    pub mark: Mark,
}

impl Mark {
    /// For output that was read just now.
    pub fn now(attempt: u32, source: Source) -> Mark {
        Mark { at: Millis(clock::wall_millis()), attempt, source }
    }

    /// The mark of output without records.
    fn implied(at: Millis) -> Mark {
        Mark { at, attempt: 1, source: Source::Stdout }
    }

    pub(super) fn unknown(at: Millis) -> Mark {
        Mark { at, attempt: 0, source: Source::Unknown }
    }
}

impl Piece {
    fn first(mark: Mark) -> Piece {
        Piece { offset: 0, mark }
    }

    /// Layout: the offset; then 42 bits of time, 20 of attempt and 2 of source.
    fn encode(self) -> [u8; SIZE] {
        let Mark { at, attempt, source } = self.mark;
        let source = match source {
            Source::Stdout => 0,
            Source::Stderr => 1,
            Source::Unknown => 2,
        };
        // 42 bits of milliseconds last until 2109.
        let at = at.0.clamp(0, (1 << 42) - 1) as u64;
        let word = at << 22 | u64::from(attempt.min((1 << 20) - 1)) << 2 | source;
        let mut bytes = [0; SIZE];
        bytes[..8].copy_from_slice(&self.offset.to_le_bytes());
        bytes[8..].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    fn decode(bytes: &[u8; SIZE]) -> Piece {
        let bytes = u128::from_le_bytes(*bytes);
        let (offset, word) = (bytes as u64, (bytes >> 64) as u64);
        let source = match word & 3 {
            0 => Source::Stdout,
            1 => Source::Stderr,
            _ => Source::Unknown,
        };
        let attempt = (word >> 2) as u32 & ((1 << 20) - 1);
        Piece { offset, mark: Mark { at: Millis((word >> 22) as i64), attempt, source } }
    }
}

/// The file with the records of this output.
pub(super) fn beside(log: &Path) -> PathBuf {
    log.with_extension("idx")
}

/// Whether this is a file of records.
pub(super) fn is_index(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "idx")
}

/// Bytes that a file takes on disk: whole blocks.
pub(super) fn room(len: u64) -> u64 {
    len.next_multiple_of(4096)
}

/// Removes the records of output that is gone; gives the bytes that this frees.
pub(super) fn remove_records(log: &Path) -> u64 {
    let found = fs::symlink_metadata(beside(log)).map_or(0, |found| room(found.len()));
    fs::remove_file(beside(log)).map_or(0, |()| found)
}

/// Since when there are records in the directory of all output; from now on, if there were none.
pub(super) fn since(root: &Path, now: Millis) -> Millis {
    recorded_since(root).unwrap_or_else(|| {
        // If this fails, the next start begins a new index, and older output has no times.
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(root);
        made.and_then(|()| write_private(&root.join(SINCE), now.0.to_string())).ok();
        now
    })
}

fn recorded_since(root: &Path) -> Option<Millis> {
    fs::read_to_string(root.join(SINCE)).ok()?.trim().parse().ok().map(Millis)
}

/// The mark of output without records, which was last written to at that time.
fn without(since: Option<Millis>, written: Millis) -> Mark {
    match since {
        Some(since) if written.0 >= since.0 => Mark::implied(written),
        Some(_) | None => Mark::unknown(written),
    }
}

/// When a file was last written to.
fn written(found: &fs::Metadata) -> Millis {
    Millis(found.mtime() * 1000 + found.mtime_nsec() / 1_000_000)
}

/// The pieces of the output in this file below the directory of all output, in order. None if there is no such file.
pub(super) fn pieces(root: &Path, log: &Path) -> io::Result<Option<Vec<Piece>>> {
    let bytes = match fs::read(beside(log)) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        read => read?,
    };
    let mut pieces: Vec<Piece> = bytes.as_chunks().0.iter().map(Piece::decode).collect();
    // A power cut may leave anything.
    pieces.dedup_by(|next, before| next.offset <= before.offset);
    let found = match fs::metadata(log) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    match pieces.first() {
        Some(first) if first.offset == 0 => {}
        Some(first) => pieces.insert(0, Piece::first(Mark::unknown(first.mark.at))),
        None => pieces.push(Piece::first(without(recorded_since(root), written(&found)))),
    }
    Ok(Some(pieces))
}

/// The records of output that is being written.
#[derive(Debug)]
pub(super) struct Index {
    path: PathBuf,
    /// Number of records in the file.
    count: u64,
    last: Option<Piece>,
    /// Whether the last mark is not in the file, as its absence says the same.
    implied: bool,
}

impl Index {
    /// For output that is opened for writing; records exist since `since`.
    pub(crate) fn of(log: &Path, output: &File, since: Millis) -> io::Result<Index> {
        let (path, found) = (beside(log), output.metadata()?);
        let new = |last| Index { path: path.clone(), count: 0, last, implied: true };
        if found.len() == 0 {
            // It belongs to an earlier file of this name.
            fs::remove_file(&path).ok();
            return Ok(new(None));
        }
        let count = fs::metadata(&path).map_or(0, |records| records.len() / SIZE as u64);
        let Some(last) = count.checked_sub(1) else {
            return Ok(new(Some(Piece::first(without(Some(since), written(&found))))));
        };
        let mut bytes = [0; SIZE];
        File::open(&path)?.read_exact_at(&mut bytes, last * SIZE as u64)?;
        let last = Piece::decode(&bytes);
        if last.offset > found.len() {
            // The output was cut since: its records are of what is gone.
            fs::remove_file(&path)?;
            return Ok(new(Some(Piece::first(Mark::unknown(written(&found))))));
        }
        Ok(Index { path, count, last: Some(last), implied: false })
    }

    /// Bytes of the file of records.
    pub(crate) fn len(&self) -> u64 {
        self.count * SIZE as u64
    }

    /// Notes the mark of the next piece, at this offset.
    pub(crate) fn note(&mut self, offset: u64, mark: Mark) -> io::Result<()> {
        let piece = Piece { offset, mark };
        match self.last {
            None if offset == 0 && mark == Mark::implied(mark.at) => {
                self.last = Some(piece);
                return Ok(());
            }
            Some(last) if self.goes_on(last.mark, mark) => return Ok(()),
            None | Some(_) => {}
        }
        // Beside a second record, the absence of the first would mean something else.
        if let Some(first) = self.last.filter(|_| self.implied) {
            self.add(first)?;
        }
        self.implied = false;
        // All later output belongs to this piece, whatever its stream.
        let is_last = self.count + 1 == MOST;
        self.add(if is_last { Piece { mark: Mark::unknown(mark.at), ..piece } } else { piece })
    }

    fn goes_on(&self, last: Mark, mark: Mark) -> bool {
        let grain = GRAIN << (self.count / GRAINS).min(32);
        let is_alike = (last.attempt, last.source) == (mark.attempt, mark.source);
        self.count >= MOST || (is_alike && mark.at.0 < last.at.0 + grain)
    }

    /// Adds a record. No descriptor is kept open for it.
    fn add(&mut self, piece: Piece) -> io::Result<()> {
        let mut options = OpenOptions::new();
        // A link put here would have another file written.
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
        let at = self.count * SIZE as u64;
        options.open(&self.path)?.write_all_at(&piece.encode(), at)?;
        self.count += 1;
        self.last = Some(piece);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn mark(at: i64, attempt: u32, source: Source) -> Mark {
        Mark { at: Millis(at), attempt, source }
    }

    struct Stage {
        dir: tempfile::TempDir,
        index: Option<Index>,
    }

    impl Stage {
        fn new() -> Stage {
            let dir = tempfile::tempdir().unwrap();
            since(dir.path(), Millis(0));
            Stage { dir, index: None }
        }

        fn log(&self) -> PathBuf {
            self.dir.path().join("a.log")
        }

        fn write(&mut self, mark: Mark, text: &str) {
            let mut file = OpenOptions::new().append(true).create(true).open(self.log()).unwrap();
            let index = self.index.take();
            let mut index = index.unwrap_or_else(|| Index::of(&self.log(), &file, Millis(0)).unwrap());
            index.note(file.metadata().unwrap().len(), mark).unwrap();
            file.write_all(text.as_bytes()).unwrap();
            self.index = Some(index);
        }

        fn pieces(&self) -> Vec<(u64, Mark)> {
            let pieces = pieces(self.dir.path(), &self.log()).unwrap().unwrap();
            pieces.into_iter().map(|piece| (piece.offset, piece.mark)).collect()
        }

        fn records(&self) -> u64 {
            fs::metadata(beside(&self.log())).map_or(0, |found| found.len() / SIZE as u64)
        }
    }

    #[test]
    fn index_record_round_trips() {
        let whole = Piece { offset: u64::MAX, mark: mark(1_790_000_000_123, 17, Source::Stderr) };
        assert_eq!(Piece::decode(&whole.encode()), whole);
        let unknown = Piece::first(Mark::unknown(Millis(0)));
        assert_eq!(Piece::decode(&unknown.encode()), unknown);
    }

    #[test]
    fn short_output_needs_no_index_file() {
        let mut stage = Stage::new();
        stage.write(mark(5, 1, Source::Stdout), "a");
        stage.write(mark(14, 1, Source::Stdout), "b");
        let pieces = stage.pieces();
        assert_eq!((stage.records(), pieces.len()), (0, 1));
        assert_eq!((pieces[0].0, pieces[0].1.attempt, pieces[0].1.source), (0, 1, Source::Stdout));
        assert!(pieces[0].1.at.0 > 1_700_000_000_000, "the time of the file");
    }

    #[test]
    fn each_stream_attempt_and_time_has_its_piece_after_a_reopen() {
        let mut stage = Stage::new();
        let said = [
            (0, mark(5, 1, Source::Stdout)),
            (1, mark(6, 1, Source::Stderr)),
            (2, mark(16, 1, Source::Stderr)),
            (3, mark(17, 2, Source::Stderr)),
        ];
        for (_, mark) in said {
            stage.write(mark, "x");
        }
        assert_eq!(stage.pieces(), said);
        stage.index = None;
        stage.write(mark(18, 2, Source::Stderr), "goes on");
        stage.write(mark(19, 3, Source::Stdout), "x");
        assert_eq!(stage.pieces()[4..], [(11, mark(19, 3, Source::Stdout))]);
        // Removing a file removes its records.
        fs::remove_file(stage.log()).unwrap();
        stage.index = None;
        stage.write(mark(20, 4, Source::Stderr), "x");
        assert_eq!(stage.pieces(), [(0, mark(20, 4, Source::Stderr))]);
    }

    #[test]
    fn output_without_records_has_unknown_origin() {
        let mut stage = Stage::new();
        fs::write(stage.log(), "old").unwrap();
        write_private(&stage.dir.path().join(SINCE), i64::MAX.to_string()).unwrap();
        assert_eq!(stage.pieces()[0].1.source, Source::Unknown);
        let file = File::open(stage.log()).unwrap();
        stage.index = Some(Index::of(&stage.log(), &file, Millis(i64::MAX)).unwrap());
        stage.write(mark(20, 2, Source::Stdout), "x");
        assert_eq!(stage.pieces()[0].1.source, Source::Unknown);
        assert_eq!(stage.pieces()[1..], [(3, mark(20, 2, Source::Stdout))]);
    }

    #[test]
    fn number_of_records_is_bounded_and_covers_a_month() {
        let mut stage = Stage::new();
        stage.write(mark(5, 1, Source::Stderr), "x");
        let mut index = stage.index.take().unwrap();
        // A line every millisecond.
        let mut at = 5;
        while index.count < MOST {
            at += GRAIN << (index.count / GRAINS);
            assert!(index.goes_on(index.last.unwrap().mark, mark(at - 1, 1, Source::Stderr)));
            assert!(!index.goes_on(index.last.unwrap().mark, mark(at, 1, Source::Stderr)));
            index.last = Some(Piece::first(mark(at, 1, Source::Stderr)));
            index.count += 1;
        }
        assert!(at > 31 * 86_400_000, "{at}");
        index.count = MOST - 3;
        for (turn, source) in [Source::Stdout, Source::Stderr].into_iter().cycle().take(10).enumerate() {
            index.note(10 + turn as u64, mark(at, 1, source)).unwrap();
        }
        let length = fs::metadata(beside(&stage.log())).unwrap().len();
        assert_eq!((index.count, length), (MOST, MOST * SIZE as u64));
        assert_eq!(index.last.unwrap().mark.source, Source::Unknown);
    }
}
