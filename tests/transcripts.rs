//! Stories: a script of events goes in, a transcript of commands comes out. They are the supervisor's specification.
//! `tests/support/script.rs` describes the language of the scripts.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

#[path = "stories/ahead.rs"]
mod ahead;
#[path = "stories/burst.rs"]
mod burst;
#[path = "stories/changes.rs"]
mod changes;
#[path = "stories/cut_off.rs"]
mod cut_off;
#[path = "stories/jobs.rs"]
mod jobs;
#[path = "stories/limits.rs"]
mod limits;
#[path = "stories/queues.rs"]
mod queues;
#[path = "support/script.rs"]
mod script;
#[path = "stories/suspects.rs"]
mod suspects;
#[path = "stories/unproven.rs"]
mod unproven;
#[path = "stories/workers.rs"]
mod workers;

use model::{PoolSettings, Settings};

fn fork(workers: u16) -> Settings {
    let pool = PoolSettings { workers, ..PoolSettings::default() };
    Settings { pools: vec![pool], ..Settings::default() }
}

fn prefork(workers: u16) -> Settings {
    let mut settings = fork(workers);
    settings.pools[0].jobs_per_life = None;
    settings
}

fn coroutine(workers: u16) -> Settings {
    let mut settings = prefork(workers);
    settings.pools[0].jobs_at_once = 3;
    settings
}

fn template(workers: u16) -> Settings {
    let mut settings = fork(workers);
    settings.pools[0].template = true;
    settings
}
