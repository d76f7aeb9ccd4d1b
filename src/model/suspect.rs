//! Suspects: jobs during which supervisors died.

use std::time::Duration;

use super::{Failure, Job};

impl Job {
    /// Interruptions after which a job is a suspect: it may be what ends its supervisors.
    pub const SUSPECTED_AFTER: u32 = 2;

    /// How long a suspect has its host for itself: it waits this long at most for other jobs to end, and for this long
    /// after its begin no other begins.
    pub const ALONE_FOR: Duration = Duration::from_secs(300);

    /// Number of interruptions after which a job is held.
    pub const INTERRUPTIONS_MAX: u32 = 5;
    /// The same if it ran alone the last time: nothing else can have been the cause.
    pub const INTERRUPTIONS_MAX_ALONE: u32 = Job::SUSPECTED_AFTER + 1;

    /// Whether it is a suspect, which runs alone on its host.
    pub fn is_suspect(&self) -> bool {
        self.interrupted >= Job::SUSPECTED_AFTER
    }

    /// Whether a job is held after this many interruptions, and why.
    pub fn held_after(interrupted: u32, ran_alone: bool) -> Option<Failure> {
        let message = if ran_alone && interrupted >= Job::INTERRUPTIONS_MAX_ALONE {
            format!(
                "its supervisor or host died {interrupted} times while it ran, the last time while no other job ran \
                 there: it may be the cause"
            )
        } else if interrupted >= Job::INTERRUPTIONS_MAX {
            format!("interrupted {interrupted} times, the last time by the death of its supervisor or host")
        } else {
            return None;
        };
        Some(Failure { group: "interrupted".into(), message, trace: None })
    }
}
