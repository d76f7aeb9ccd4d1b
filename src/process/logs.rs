//! Job output on its way to disk: a thread of its own, so that a slow disk delays nobody.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use crate::model::JobId;

/// Bytes that may wait for the disk.
const ROOM: usize = 32 << 20;

/// Files open at a time, at most.
const OPEN: usize = 256;

/// From a job to the file that holds its output.
pub type LogFile = Box<dyn Fn(&JobId) -> PathBuf + Send>;

/// Hands output to the writer thread. Never blocks: what the disk cannot take is dropped and counted.
#[derive(Clone)]
pub struct Logs {
    queue: Sender<Line>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    waiting: AtomicUsize,
    dropped: AtomicU64,
    trouble: Mutex<Option<String>>,
}

enum Line {
    Output(JobId, Vec<u8>),
    End(JobId, oneshot::Sender<u64>),
}

impl Logs {
    /// Starts the writer; `file` says where a job's output is kept.
    pub fn start(file: LogFile) -> io::Result<Logs> {
        let (queue, lines) = channel();
        let shared = Arc::new(Shared::default());
        let writer = Writer { file, open: HashMap::new(), lost: HashMap::new(), shared: shared.clone() };
        std::thread::Builder::new()
            .name("tv-logs".into())
            .stack_size(128 << 10)
            .spawn(|| writer.run(lines))?;
        Ok(Logs { queue, shared })
    }

    /// Adds to a job's file. False when it was dropped because the disk does not keep up.
    pub fn output(&self, job: &JobId, bytes: &[u8]) -> bool {
        let fits = self.shared.waiting.load(Ordering::Relaxed) + weight(bytes) <= ROOM;
        if fits {
            self.shared.waiting.fetch_add(weight(bytes), Ordering::Relaxed);
            self.send(Line::Output(job.clone(), bytes.to_vec()));
        } else {
            self.shared.dropped.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        }
        fits
    }

    /// Adds a word of ours, which is never dropped: there is one for each attempt at most.
    pub fn remark(&self, job: &JobId, text: String) {
        self.shared.waiting.fetch_add(weight(text.as_bytes()), Ordering::Relaxed);
        self.send(Line::Output(job.clone(), text.into_bytes()));
    }

    /// The attempt is over: its file may be closed. The answer comes when all of its output is written, and is the number
    /// of bytes that could not be.
    pub fn end(&self, job: &JobId) -> oneshot::Receiver<u64> {
        let (written, answer) = oneshot::channel();
        self.send(Line::End(job.clone(), written));
        answer
    }

    /// Bytes dropped so far, and what is wrong with the disk if anything.
    pub fn trouble(&self) -> (u64, Option<String>) {
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.shared.dropped.load(Ordering::Relaxed), trouble)
    }

    fn send(&self, line: Line) {
        // The writer ends only when the last of us is dropped.
        self.queue.send(line).ok();
    }
}

/// What a piece of output takes in memory while it waits: a million empty lines take more than their bytes.
fn weight(bytes: &[u8]) -> usize {
    bytes.len() + 160
}

struct Writer {
    file: LogFile,
    open: HashMap<JobId, File>,
    /// What the disk did not take of attempts under way.
    lost: HashMap<JobId, u64>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self, lines: Receiver<Line>) {
        for line in lines {
            match line {
                Line::End(job, written) => {
                    self.open.remove(&job);
                    written.send(self.lost.remove(&job).unwrap_or(0)).ok();
                }
                Line::Output(job, bytes) => {
                    let mut rest = bytes.as_slice();
                    let result = self.write(&job, &mut rest);
                    self.shared.waiting.fetch_sub(weight(&bytes), Ordering::Relaxed);
                    self.note(&job, rest.len() as u64, result);
                }
            }
        }
    }

    /// Takes from `bytes` what was written.
    fn write(&mut self, job: &JobId, bytes: &mut &[u8]) -> io::Result<()> {
        // A file that is closed too early is opened again.
        if self.open.len() >= OPEN {
            self.open.clear();
        }
        if !self.open.contains_key(job) {
            let path = (self.file)(job);
            if let Some(shelf) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(shelf)?;
            }
            let mut how = OpenOptions::new();
            let how = how.append(true).create(true).mode(0o600);
            let file = how.open(&path).or_else(|error| match error.raw_os_error() {
                Some(libc::EMFILE | libc::ENFILE) if !self.open.is_empty() => {
                    self.open.clear();
                    how.open(&path)
                }
                Some(_) | None => Err(error),
            })?;
            self.open.insert(job.clone(), file);
        }
        let Some(file) = self.open.get_mut(job) else { return Ok(()) };
        while !bytes.is_empty() {
            match file.write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(len) => *bytes = &bytes[len..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn note(&mut self, job: &JobId, lost: u64, result: io::Result<()>) {
        let mut trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => *trouble = None,
            Err(error) => {
                let all = self.shared.dropped.fetch_add(lost, Ordering::Relaxed) + lost;
                *self.lost.entry(job.clone()).or_default() += lost;
                let path = (self.file)(job);
                *trouble = Some(format!(
                    "failed to write the output of job {job} to {}: {error}; {all} bytes were dropped so far",
                    path.display()
                ));
            }
        }
    }
}
