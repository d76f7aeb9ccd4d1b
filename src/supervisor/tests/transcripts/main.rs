//! Stories: a script of events goes in, a transcript of commands comes out. They are the supervisor's specification.
//! `script.rs` describes the language of the scripts.

#![expect(clippy::unwrap_used, reason = "what is missing here is a mistake in the test")]

mod ahead;
mod burst;
mod changes;
mod cut_off;
mod jobs;
mod leaving;
mod limits;
mod queues;
mod script;
mod suspects;
mod unproven;
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
