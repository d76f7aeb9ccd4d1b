//! Job output on its way to disk: a thread of its own, so that a slow disk delays nobody.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};

use crate::model::JobId;

/// Chunks that may wait for the disk: 64 KB each, so 16 MB at most.
const QUEUE: usize = 256;

/// From a job to the file that holds its output.
pub type LogFile = Box<dyn Fn(&JobId) -> PathBuf + Send>;

/// Hands output to the writer thread. Never blocks: what the disk cannot take is dropped and counted.
#[derive(Clone)]
pub struct Logs {
    queue: SyncSender<Line>,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    dropped: AtomicU64,
    trouble: Mutex<Option<String>>,
}

enum Line {
    Output(JobId, Vec<u8>),
    End(JobId),
}

impl Logs {
    /// Starts the writer; `file` says where a job's output is kept.
    pub fn start(file: LogFile) -> io::Result<Logs> {
        let (queue, lines) = sync_channel(QUEUE);
        let shared = Arc::new(Shared::default());
        let writer = Writer { file, open: HashMap::new(), shared: shared.clone() };
        std::thread::Builder::new()
            .name("tv-logs".into())
            .stack_size(128 << 10)
            .spawn(|| writer.run(lines))?;
        Ok(Logs { queue, shared })
    }

    /// Adds to a job's file. False when it was dropped because the disk does not keep up.
    pub fn output(&self, job: &JobId, bytes: &[u8]) -> bool {
        self.send(Line::Output(job.clone(), bytes.to_vec()), bytes.len())
    }

    /// The attempt is over: its file may be closed.
    pub fn end(&self, job: &JobId) {
        self.send(Line::End(job.clone()), 0);
    }

    /// Bytes dropped so far, and what is wrong with the disk if anything.
    pub fn trouble(&self) -> (u64, Option<String>) {
        let trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone();
        (self.shared.dropped.load(Ordering::Relaxed), trouble)
    }

    fn send(&self, line: Line, len: usize) -> bool {
        match self.queue.try_send(line) {
            Ok(()) => true,
            Err(TrySendError::Full(_) | TrySendError::Disconnected(_)) => {
                self.shared.dropped.fetch_add(len as u64, Ordering::Relaxed);
                false
            }
        }
    }
}

struct Writer {
    file: LogFile,
    open: HashMap<JobId, File>,
    shared: Arc<Shared>,
}

impl Writer {
    fn run(mut self, lines: Receiver<Line>) {
        for line in lines {
            match line {
                Line::End(job) => drop(self.open.remove(&job)),
                Line::Output(job, bytes) => {
                    let result = self.write(&job, &bytes);
                    self.note(&job, bytes.len(), result);
                }
            }
        }
    }

    fn write(&mut self, job: &JobId, bytes: &[u8]) -> io::Result<()> {
        // An end that found the queue full leaves its file open: close the lot before there are too many.
        if self.open.len() > QUEUE {
            self.open.clear();
        }
        if !self.open.contains_key(job) {
            let path = (self.file)(job);
            if let Some(shelf) = path.parent() {
                fs::DirBuilder::new().recursive(true).mode(0o700).create(shelf)?;
            }
            let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
            self.open.insert(job.clone(), file);
        }
        match self.open.get_mut(job) {
            Some(file) => file.write_all(bytes),
            None => Ok(()),
        }
    }

    fn note(&self, job: &JobId, len: usize, result: io::Result<()>) {
        let mut trouble = self.shared.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        match result {
            Ok(()) => *trouble = None,
            Err(error) => {
                self.shared.dropped.fetch_add(len as u64, Ordering::Relaxed);
                let path = (self.file)(job);
                *trouble =
                    Some(format!("failed to write the output of job {job} to {}: {error}", path.display()));
            }
        }
    }
}
