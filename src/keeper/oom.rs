//! Out-of-memory scores: the kernel kills a process of a job before the supervisor, whose death would end all jobs.
//!
//! The score of a process goes by its memory, so a small job would outlive the supervisor of a small container. Children
//! inherit the score of the process that forks them: the keeper raises its own for the moment of the fork. A child that
//! raised its own would have to be open to others of its user for that.

use std::fs::{self, File, OpenOptions};
use std::io::Write;

/// Memory that a process of a job counts for beside its own: what a supervisor may have.
const HEAD_START: u64 = 128 << 20;

/// The most that is added, in thousandths of the memory there is.
const MOST: i32 = 500;

/// The scores of the keeper and of what it forks for jobs.
pub(super) struct OomScore {
    /// The keeper's score; None = it cannot be set, so all have the same.
    file: Option<File>,
    own: i32,
    jobs: i32,
}

impl OomScore {
    /// To be opened before this process is closed to others of its user: from then on the file is root's. `memory` is
    /// the memory that keeper, supervisor and jobs have together, in bytes.
    pub(super) fn open(memory: Option<u64>) -> OomScore {
        let path = "/proc/self/oom_score_adj";
        let own = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok());
        let file = OpenOptions::new().write(true).open(path).ok().filter(|_| own.is_some());
        let own = own.unwrap_or(0);
        OomScore { file, own, jobs: of_jobs(own, memory) }
    }

    /// Before the fork of a child for jobs.
    pub(super) fn raise(&self) {
        self.set(self.jobs);
    }

    /// After that fork.
    pub(super) fn take_back(&self) {
        self.set(self.own);
    }

    fn set(&self, score: i32) {
        if let Some(mut file) = self.file.as_ref() {
            _ = file.write_all(score.to_string().as_bytes());
        }
    }
}

/// The score of jobs under a keeper with this score. A negative score of the keeper (protected) is not passed on.
pub fn of_jobs(own: i32, memory: Option<u64>) -> i32 {
    let thousandths = memory.map_or(u64::MAX, |memory| (HEAD_START * 1000).div_ceil(memory.max(1)));
    let more = i32::try_from(thousandths).unwrap_or(MOST).min(MOST);
    (own.max(0) + more).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_counts_for_more_memory_than_a_supervisor_has() {
        let gib = |gib: u64| Some(gib << 30);
        assert_eq!([gib(64), gib(16), gib(1)].map(|memory| of_jobs(0, memory)), [2, 8, 125]);
        assert_eq!(of_jobs(0, Some(100 << 20)), 500, "a container of 100 MB");
        assert_eq!([None, Some(0)].map(|memory| of_jobs(0, memory)), [500, 500]);
        assert_eq!(of_jobs(200, gib(16)), 208);
        assert_eq!(of_jobs(-900, gib(16)), 8, "a job of a protected service is not protected");
        assert_eq!(of_jobs(990, Some(1)), 1000);
    }
}
