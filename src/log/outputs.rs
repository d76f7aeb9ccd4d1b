//! Writes the output of children to disk, by a thread, so that a slow disk delays no one.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Sender, channel};

use tokio::sync::oneshot;

use super::index::Mark;
use super::lines::{Line, Places, Shared, weight};
use super::reader::Reader;
use super::writer::Writer;
use model::{JobId, LogSettings};

/// Limit of the bytes that wait for the disk.
const ROOM: usize = 32 << 20;

/// Passes output to the writer thread. Never blocks: output that the disk cannot take is dropped and counted.
#[derive(Clone)]
pub struct Outputs {
    queue: Sender<Line>,
    shared: Arc<Shared>,
    /// Whether output that slots print outside of jobs is kept in files.
    slots: bool,
    places: Places,
}

impl Outputs {
    /// Starts the writer thread.
    pub fn start(settings: &LogSettings, places: Places) -> io::Result<Outputs> {
        let (queue, lines) = channel();
        let shared = Arc::new(Shared::default());
        let writer = Writer::new(settings, places.clone(), shared.clone());
        std::thread::Builder::new()
            .name("tv-outputs".into())
            .stack_size(128 << 10)
            .spawn(move || writer.run(&lines))?;
        Ok(Outputs { queue, shared, slots: settings.dir.is_some(), places })
    }

    /// Whether [`Outputs::slot`] has files to write to.
    pub fn keeps_slots(&self) -> bool {
        self.slots
    }

    /// The directory with the output of jobs.
    pub fn dir(&self) -> &Path {
        &self.places.jobs
    }

    /// Reads the output of a job.
    pub fn reader(&self, job: &JobId) -> Reader {
        Reader::new(self.places.jobs.clone(), (self.places.job)(job))
    }

    /// Adds to a job's file. False when it was dropped because the disk does not keep up.
    pub fn output(&self, job: &JobId, mark: Mark, bytes: &[u8]) -> bool {
        self.offer(bytes, |bytes| Line::Job { job: job.clone(), mark, bytes })
    }

    /// Adds to the file of a slot, as [`Outputs::output`] adds to that of a job.
    pub fn slot(&self, name: &str, bytes: &[u8]) -> bool {
        self.offer(bytes, |bytes| Line::Slot(name.to_owned(), bytes))
    }

    /// Adds a remark of our own, which is never dropped: there is at most one for each attempt.
    pub fn remark(&self, job: &JobId, mark: Mark, text: String) {
        self.shared.waiting.fetch_add(weight(text.as_bytes()), Ordering::Relaxed);
        self.send(Line::Job { job: job.clone(), mark, bytes: text.into_bytes() });
    }

    /// The attempt is over: its file may be closed, and is removed when it is old. The answer comes when all of its
    /// output is written, and is the number of bytes that could not be written.
    pub fn end(&self, job: &JobId) -> oneshot::Receiver<u64> {
        let (written, answer) = oneshot::channel();
        self.send(Line::End(job.clone(), written));
        answer
    }

    /// Closes the files of slots, as they were moved.
    pub fn reopen(&self) {
        self.send(Line::Reopen);
    }

    /// Bytes that the output of jobs takes on disk, as far as they were counted.
    pub fn used(&self) -> u64 {
        self.shared.used.load(Ordering::Relaxed)
    }

    /// Bytes dropped so far, and the trouble with the disk, if any.
    pub fn trouble(&self) -> (u64, Option<String>) {
        (self.shared.dropped(), self.shared.trouble())
    }

    fn offer(&self, bytes: &[u8], line: impl FnOnce(Vec<u8>) -> Line) -> bool {
        let fits = self.shared.waiting.load(Ordering::Relaxed) + weight(bytes) <= ROOM;
        // Two threads may both find the last room: the limit need not be exact.
        if fits {
            self.shared.waiting.fetch_add(weight(bytes), Ordering::Relaxed);
            self.send(line(bytes.to_vec()));
        } else {
            self.shared.lost(bytes.len() as u64);
        }
        fits
    }

    fn send(&self, line: Line) {
        // The writer ends only when the last handle is dropped.
        self.queue.send(line).ok();
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::lines::JobFile;
    use super::*;
    use crate::Source;
    use model::{Millis, Rotate};

    const MARK: Mark = Mark { at: Millis(1), attempt: 1, source: Source::Stdout };

    struct Stage {
        dir: tempfile::TempDir,
        outputs: Outputs,
    }

    impl Stage {
        fn new(settings: LogSettings) -> Stage {
            let dir = tempfile::tempdir().unwrap();
            let jobs = dir.path().join("jobs");
            let file = jobs.clone();
            let job: JobFile = Arc::new(move |job| file.join("x").join(format!("{job}.log")));
            let settings = LogSettings { dir: Some(dir.path().join("slots")), ..settings };
            fs::create_dir(dir.path().join("slots")).unwrap();
            let outputs = Outputs::start(&settings, Places { jobs, job }).unwrap();
            Stage { dir, outputs }
        }

        /// Writes and waits until it is written; returns the number of lost bytes.
        fn print(&self, job: &str, text: &[u8]) -> u64 {
            self.outputs.output(&job.into(), MARK, text);
            self.settle(job)
        }

        fn settle(&self, job: &str) -> u64 {
            self.outputs.end(&job.into()).blocking_recv().unwrap()
        }

        fn read(&self, name: &str) -> String {
            fs::read_to_string(self.dir.path().join(name)).unwrap()
        }
    }

    #[test]
    fn the_output_of_a_job_is_its_bytes_in_order() {
        let stage = Stage::new(LogSettings::default());
        stage.outputs.output(&"a".into(), MARK, b"one\xff\0");
        stage.outputs.remark(&"a".into(), MARK, "two".into());
        assert_eq!(stage.print("a", b"three"), 0);
        assert_eq!(fs::read(stage.dir.path().join("jobs/x/a.log")).unwrap(), b"one\xff\0twothree");
        assert_eq!(stage.print("a", b" again"), 0, "a second attempt");
        assert!(fs::read(stage.dir.path().join("jobs/x/a.log")).unwrap().ends_with(b"three again"));
    }

    #[test]
    fn removed_output_file_is_created_again() {
        let stage = Stage::new(LogSettings::default());
        stage.outputs.output(&"a".into(), MARK, b"one");
        stage.print("b", b"");
        fs::remove_file(stage.dir.path().join("jobs/x/a.log")).unwrap();
        stage.print("a", b"two");
        assert_eq!(stage.read("jobs/x/a.log"), "two");
    }

    #[test]
    fn directory_in_place_of_a_file_is_reported_until_it_is_gone() {
        let stage = Stage::new(LogSettings::default());
        let path = stage.dir.path().join("jobs/x/a.log");
        fs::create_dir_all(&path).unwrap();
        assert_eq!(stage.print("a", b"lost"), 4);
        let (dropped, trouble) = stage.outputs.trouble();
        let trouble = trouble.unwrap();
        assert!(
            dropped == 4 && trouble.contains("a.log: Is a directory") && trouble.contains("4 bytes"),
            "{trouble}"
        );
        fs::remove_dir(&path).unwrap();
        // Without further output of the job.
        while stage.outputs.trouble().1.is_some() {
            std::thread::yield_now();
        }
        assert_eq!(stage.outputs.trouble().0, 4);
    }

    #[test]
    fn output_is_not_written_through_a_link() {
        let stage = Stage::new(LogSettings::default());
        let (link, file) = (stage.dir.path().join("jobs/x/a.log"), stage.dir.path().join("victim"));
        fs::create_dir_all(link.parent().unwrap()).unwrap();
        fs::write(&file, "own").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        assert_eq!(stage.print("a", b"lost"), 4);
        assert_eq!(stage.read("victim"), "own");
        fs::remove_file(&link).unwrap();
        assert_eq!((stage.print("a", b"kept"), stage.read("jobs/x/a.log")), (0, "kept".into()));
    }

    #[test]
    fn the_files_of_slots_are_rotated() {
        let rotate = Rotate { size: 8, keep: 1 };
        let stage = Stage::new(LogSettings { rotate, ..LogSettings::default() });
        for text in ["one\n", "two\n", "three\n"] {
            assert!(stage.outputs.slot("slot-a.1.log", text.as_bytes()));
        }
        stage.print("a", b"");
        assert_eq!(
            (stage.read("slots/slot-a.1.log"), stage.read("slots/slot-a.1.log.1")),
            ("three\n".into(), "one\ntwo\n".into())
        );
        fs::rename(stage.dir.path().join("slots/slot-a.1.log"), stage.dir.path().join("moved")).unwrap();
        stage.outputs.reopen();
        stage.outputs.slot("slot-a.1.log", b"four\n");
        stage.print("a", b"");
        assert_eq!(
            (stage.read("slots/slot-a.1.log"), stage.read("moved")),
            ("four\n".into(), "three\n".into())
        );
    }

    #[test]
    fn quota_removes_output_of_ended_jobs_but_not_of_running_ones() {
        let stage = Stage::new(LogSettings { quota: 100 << 10, ..LogSettings::default() });
        stage.outputs.output(&"running".into(), MARK, &[b'x'; 50_000]);
        stage.print("first", b"x");
        let there = |name: &str| stage.dir.path().join(format!("jobs/x/{name}.log")).exists();
        let mut n = 0;
        while there("first") {
            stage.print(&n.to_string(), &[b'x'; 20_000]);
            n += 1;
        }
        assert!(there("running") && (2..40).contains(&n), "{n}");
        assert!(removed(&stage).is_some());
    }

    fn removed(stage: &Stage) -> Option<model::Millis> {
        // The scan is over when it is recorded.
        for _ in 0..1_000_000 {
            let found = crate::output_retention::removed_until(&stage.dir.path().join("jobs"));
            if found.is_some() {
                return found;
            }
            std::thread::yield_now();
        }
        None
    }
}
