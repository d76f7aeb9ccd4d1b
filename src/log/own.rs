//! The supervisor's own log. A caller never waits: a thread writes. Lines that it cannot write yet wait in a buffer;
//! lines that do not fit are dropped and counted, and the log says so as soon as it flows again.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tracing::warn;

use super::rank::{Budget, DETAILS, Rank, WORKERS};
use super::target::Target;
use model::Instant;

/// Limit of the bytes that wait.
const ROOM: usize = 256 << 10;

/// Additional bytes for lines that matter.
const RESERVE: usize = 64 << 10;

/// Shortest time between two lines about dropped lines.
const TOLD: Duration = Duration::from_secs(10);

/// Pause before a failed write is tried again.
const AGAIN: Duration = Duration::from_secs(1);

/// A handle of the supervisor's own log.
#[derive(Clone)]
pub struct OwnLog {
    shared: Arc<Shared>,
}

struct Shared {
    queue: Mutex<Queue>,
    /// Wakes the thread when there is something to do.
    more: Condvar,
    /// Wakes callers of `flush` when all is written.
    done: Condvar,
    target: String,
}

#[derive(Default)]
struct Queue {
    lines: VecDeque<Vec<u8>>,
    bytes: usize,
    /// Whether a line is being written.
    writing: bool,
    dropped: u64,
    /// How many dropped lines the log has reported, and when.
    told: u64,
    told_at: Option<Instant>,
    workers: Budget,
    details: Budget,
    /// Whether nothing was written since a line was dropped.
    stuck: bool,
    failed: Option<String>,
    reopen: bool,
}

impl OwnLog {
    /// Starts the writing thread.
    pub(super) fn start(target: Target) -> io::Result<OwnLog> {
        let shared = Arc::new(Shared {
            queue: Mutex::default(),
            more: Condvar::new(),
            done: Condvar::new(),
            target: target.to_string(),
        });
        let thread = shared.clone();
        let builder = std::thread::Builder::new().name("tv-log".into()).stack_size(128 << 10);
        builder.spawn(move || thread.run(target))?;
        Ok(OwnLog { shared })
    }

    /// Adds a line, or an entry of the journal. Never waits.
    pub(super) fn add(&self, rank: Rank, line: Vec<u8>) {
        let mut queue = self.shared.lock();
        if !queue.affords(rank, line.len(), clock::now()) {
            queue.dropped += 1;
            // The thread reports the dropped line.
            self.shared.more.notify_one();
            return;
        }
        let room = if rank == Rank::Matters { ROOM + RESERVE } else { ROOM };
        // An empty queue takes any line, even one above the limit.
        if queue.bytes + line.len() > room && !queue.lines.is_empty() {
            queue.dropped += 1;
            queue.stuck = true;
            return;
        }
        queue.bytes += line.len();
        queue.lines.push_back(line);
        self.shared.more.notify_one();
    }

    /// Closes the file, as it was moved. Makes another of its name at once, without waiting for the next line.
    pub fn reopen(&self) {
        self.shared.lock().reopen = true;
        self.shared.more.notify_one();
    }

    /// Lines dropped so far, and the trouble with writing, if any.
    pub fn trouble(&self) -> (u64, Option<String>) {
        let queue = self.shared.lock();
        let (target, dropped) = (&self.shared.target, queue.dropped);
        let failed =
            queue.failed.as_ref().map(|error| format!("failed to write the log to {target}: {error}"));
        let stuck = queue.stuck.then(|| format!("nobody reads the log ({target})"));
        let trouble = failed.or(stuck);
        let lost = match dropped {
            0 => "; its lines are kept in memory, as long as there is room".to_owned(),
            _ => format!("; {dropped} lines of it were dropped so far"),
        };
        (dropped, trouble.map(|trouble| trouble + &lost))
    }

    /// Waits until all is written, at most this long.
    pub fn flush(&self, patience: Duration) {
        let queue = self.shared.lock();
        // After a failure waiting would not help.
        let busy = |queue: &mut Queue| (queue.writing || !queue.lines.is_empty()) && queue.failed.is_none();
        drop(self.shared.done.wait_timeout_while(queue, patience, busy));
    }
}

impl Queue {
    fn affords(&mut self, rank: Rank, bytes: usize, now: Instant) -> bool {
        match rank {
            Rank::Matters => true,
            Rank::Detail => self.details.spend(bytes, now, DETAILS),
            Rank::Workers => self.workers.spend(bytes, now, WORKERS),
        }
    }

    /// Time until dropped lines may be reported; None if none are unreported.
    fn silence(&self, now: Instant) -> Option<Duration> {
        let since = self.told_at.map(|told| TOLD.saturating_sub(now.since(told)));
        (self.dropped > self.told).then(|| since.unwrap_or_default())
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, mut target: Target) {
        loop {
            let (reopen, line) = self.next();
            if reopen {
                target.reopen();
            }
            let Some(line) = line else {
                self.tell_dropped();
                continue;
            };
            let mut rest = line.as_slice();
            let result = target.write(&mut rest);
            let written = line.len() - rest.len();
            self.wrote(line, written, result);
            self.tell_dropped();
        }
    }

    /// Waits for something to do.
    fn next(&self) -> (bool, Option<Vec<u8>>) {
        let mut queue = self.lock();
        while queue.lines.is_empty() && !queue.reopen {
            queue = match queue.silence(clock::now()) {
                None => self.more.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => break,
                Some(time) => self.more.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0,
            };
        }
        let line = queue.lines.pop_front();
        queue.writing = line.is_some();
        (std::mem::take(&mut queue.reopen), line)
    }

    /// Keeps the unwritten rest of a line, which is written first later.
    fn wrote(&self, mut line: Vec<u8>, written: usize, result: io::Result<()>) {
        let mut queue = self.lock();
        queue.writing = false;
        queue.bytes -= written;
        queue.stuck &= result.is_err();
        queue.failed = result.err().map(|error| error.to_string());
        if written < line.len() {
            line.drain(..written);
            queue.lines.push_front(line);
            self.done.notify_all();
            let waits = |queue: &mut Queue| !queue.reopen;
            drop(self.more.wait_timeout_while(queue, AGAIN, waits));
            return;
        }
        if queue.lines.is_empty() {
            self.done.notify_all();
        }
    }

    /// Reports dropped lines, once all others are written.
    fn tell_dropped(&self) {
        let mut queue = self.lock();
        let now = clock::now();
        if !queue.lines.is_empty() || queue.silence(now) != Some(Duration::ZERO) {
            return;
        }
        let lost = queue.dropped - queue.told;
        (queue.told, queue.told_at) = (queue.dropped, Some(now));
        // The warning comes back to this log, which takes the lock.
        drop(queue);
        warn!(
            dropped = lost,
            "lines of this log were dropped: it was not written, or not read, fast enough, or there was too much of what \
             workers print outside of jobs, or of debug lines"
        );
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixDatagram;
    use std::path::PathBuf;

    use super::super::journal_socket::Journal;
    use super::super::rotated::Rotated;
    use super::*;
    use model::Rotate;

    const LONG: Duration = Duration::from_secs(30);

    struct Stage {
        dir: tempfile::TempDir,
        log: OwnLog,
    }

    impl Stage {
        fn new() -> Stage {
            let dir = tempfile::tempdir().unwrap();
            let file = Rotated::new(dir.path().join("a.log"), Rotate { size: 1 << 20, keep: 1 });
            Stage { log: OwnLog::start(Target::File(file)).unwrap(), dir }
        }

        fn path(&self) -> PathBuf {
            self.dir.path().join("a.log")
        }

        fn read(&self) -> String {
            self.log.flush(LONG);
            fs::read_to_string(self.path()).unwrap()
        }
    }

    #[test]
    fn lines_are_written_in_order() {
        let stage = Stage::new();
        for n in 0..1000 {
            stage.log.add(Rank::Detail, format!("{n}\n").into_bytes());
        }
        let all: String = (0..1000).map(|n| format!("{n}\n")).collect();
        assert_eq!(stage.read(), all);
        assert_eq!(stage.log.trouble(), (0, None));
    }

    #[test]
    fn reopen_creates_a_moved_log_file_at_once() {
        let stage = Stage::new();
        stage.log.add(Rank::Detail, b"a\n".to_vec());
        assert_eq!(stage.read(), "a\n");
        fs::rename(stage.path(), stage.dir.path().join("moved")).unwrap();
        stage.log.reopen();
        while !stage.path().exists() {
            std::thread::yield_now();
        }
        stage.log.add(Rank::Detail, b"b\n".to_vec());
        assert_eq!(stage.read(), "b\n");
    }

    #[test]
    fn lines_that_cannot_be_written_wait_and_are_written_later() {
        let stage = Stage::new();
        fs::create_dir(stage.path()).unwrap();
        stage.log.add(Rank::Detail, b"a\n".to_vec());
        stage.log.flush(LONG);
        let trouble = stage.log.trouble().1.unwrap();
        assert!(trouble.contains("a.log: Is a directory") && trouble.contains("kept in memory"), "{trouble}");
        fs::remove_dir(stage.path()).unwrap();
        stage.log.add(Rank::Detail, b"b\n".to_vec());
        // The log retries by itself.
        while stage.log.trouble().1.is_some() {
            std::thread::yield_now();
        }
        assert_eq!(stage.read(), "a\nb\n");
    }

    #[test]
    fn logging_never_waits_and_lines_that_do_not_fit_are_counted() {
        let stage = Stage::new();
        fs::create_dir(stage.path()).unwrap();
        let line = vec![b'x'; 1000];
        for _ in 0..1000 {
            stage.log.add(Rank::Detail, line.clone());
        }
        let (dropped, trouble) = stage.log.trouble();
        let kept = ROOM as u64 / 1000;
        assert!((1000 - kept - 1..=1000 - kept).contains(&dropped), "{dropped}");
        assert!(trouble.is_some());
        fs::remove_dir(stage.path()).unwrap();
        stage.log.reopen();
        while stage.log.trouble().1.is_some() {
            std::thread::yield_now();
        }
        assert_eq!(stage.read().len() as u64, (1000 - dropped) * 1000);
        assert_eq!(stage.log.trouble(), (dropped, None));
    }

    #[test]
    fn important_lines_are_kept_during_a_flood_of_details() {
        let stage = Stage::new();
        // The disk fails: the queue is full of details, and a death still fits.
        fs::create_dir(stage.path()).unwrap();
        (0..1000).for_each(|_| stage.log.add(Rank::Detail, vec![b'x'; 1000]));
        let before = stage.log.trouble().0;
        stage.log.add(Rank::Matters, b"a worker died\n".to_vec());
        assert_eq!(stage.log.trouble().0, before);
        fs::remove_dir(stage.path()).unwrap();
        stage.log.reopen();
        while stage.log.trouble().1.is_some() {
            std::thread::yield_now();
        }
        assert!(stage.read().ends_with("a worker died\n"));
        // Of 16 MB of worker output only 1 MiB and 16 KiB a second are kept, so important lines stay in the file.
        let before = stage.log.trouble().0;
        for _ in 0..16_000 {
            stage.log.add(Rank::Workers, vec![b'y'; 1000]);
            stage.log.flush(LONG);
        }
        let dropped = stage.log.trouble().0 - before;
        assert!((12_000..15_000).contains(&dropped), "{dropped}");
        stage.log.add(
            Rank::Matters,
            b"an order
"
            .to_vec(),
        );
        assert!(stage.read().contains(
            "an order
"
        ));
    }

    #[test]
    fn hanging_journal_blocks_no_logging() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let journal = UnixDatagram::bind(&path).unwrap();
        let log = OwnLog::start(Target::Journal(Journal::new(&path).unwrap())).unwrap();
        for _ in 0..2000 {
            log.add(Rank::Detail, vec![b'x'; 1000]);
        }
        let until = std::time::Instant::now() + Duration::from_secs(20);
        // The thread that writes may not have had its turn yet.
        let (dropped, trouble) = loop {
            match log.trouble() {
                (dropped, Some(trouble)) => break (dropped, trouble),
                _ => assert!(std::time::Instant::now() < until, "nothing is said"),
            }
            std::thread::yield_now();
        };
        assert!(
            dropped > 1000 && trouble.contains("nobody reads the log (the journal at"),
            "{dropped}: {trouble}"
        );
        let mut buffer = [0; 2000];
        let (mut read, wanted) = (0, 2000 - dropped);
        while read < wanted {
            read += u64::from(journal.recv(&mut buffer).unwrap() == 1000);
        }
        log.flush(LONG);
        assert_eq!(log.trouble(), (dropped, None));
    }
}
