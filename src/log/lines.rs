//! The messages from [`Outputs`](super::Outputs) to the writer thread, and the counters that both share.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;

use super::index::Mark;
use model::JobId;

/// Gives the file for a job's output.
pub(crate) type JobFile = Arc<dyn Fn(&JobId) -> PathBuf + Send + Sync>;

/// The places of output.
#[derive(Clone)]
pub struct Places {
    /// The directory with the files of all jobs.
    pub jobs: PathBuf,
    /// The file of a job's output.
    pub job: JobFile,
}

#[derive(Default)]
pub(super) struct Shared {
    pub(super) waiting: AtomicUsize,
    pub(super) dropped: AtomicU64,
    /// Bytes that the output of jobs takes on disk, as far as they were counted.
    pub(super) used: AtomicU64,
    pub(super) trouble: Mutex<Option<String>>,
}

pub(super) enum Line {
    Job {
        job: JobId,
        mark: Mark,
        bytes: Vec<u8>,
    },
    End(JobId, oneshot::Sender<u64>),
    /// The name of the slot's file, and the bytes.
    Slot(String, Vec<u8>),
    Reopen,
}

impl Shared {
    pub(crate) fn written(&self, bytes: &[u8]) {
        self.waiting.fetch_sub(weight(bytes), Ordering::Relaxed);
    }

    pub(crate) fn lost(&self, bytes: u64) {
        self.dropped.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(crate) fn uses(&self, bytes: u64) {
        self.used.store(bytes, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    pub(crate) fn trouble(&self) -> Option<String> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Notes that the disk works again.
    pub(crate) fn mended(&self) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub(crate) fn failed(&self, path: &Path, error: &io::Error) {
        let all = self.dropped();
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(format!(
            "failed to write {}: {error}; {all} bytes of output were dropped so far",
            path.display()
        ));
    }
}

/// Memory that a piece of output takes while it waits: a million empty lines take more than their bytes.
pub(super) fn weight(bytes: &[u8]) -> usize {
    bytes.len() + 160
}
