//! What wears out a worker: jobs, age, idleness or memory.

use std::time::Duration;

use super::restart::Random;
use crate::model::Recycle;

/// What began together does not end together: up to so many percent more for each life.
const JITTER: u32 = 10;

/// The reason why a life is worn out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wear {
    /// So many jobs.
    Jobs,
    /// It has lived for long enough.
    Age,
    /// Nothing to do for long.
    Idle,
    /// It has grown too large.
    Memory,
}

impl Wear {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Wear::Jobs => "recycled: jobs",
            Wear::Age => "recycled: age",
            Wear::Idle => "recycled: idle",
            Wear::Memory => "recycled: memory",
        }
    }
}

/// The rules of a pool, as they count for one life.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Wears(pub(super) Recycle);

impl Wears {
    /// Drawn for one life.
    pub(super) fn draw(rules: Recycle, random: &mut Random) -> Wears {
        let mut later = |wait: Duration| random.jitter(wait, JITTER);
        let (age, idle) = (rules.age.map(&mut later), rules.idle.map(&mut later));
        let jobs = rules.jobs.map(|jobs| {
            let more =
                usize::try_from(jobs.saturating_mul(u64::from(JITTER)) / 100).unwrap_or(usize::MAX - 1);
            jobs.saturating_add(random.below(more + 1) as u64)
        });
        Wears(Recycle { jobs, age, idle, ..rules })
    }
}
