//! What wears out a worker: jobs, age, idleness or memory.

use std::time::Duration;

use crate::restart::Random;
use model::Recycle;

/// Workers that began together must not end together: each life gets up to this many percent more.
const JITTER: u32 = 10;

/// The reason why a life is worn out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wear {
    /// The number of jobs.
    Jobs,
    /// It has lived long enough.
    Age,
    /// It was idle for long.
    Idle,
    /// It has grown too large.
    Memory,
}

impl Wear {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Wear::Jobs => "recycled: jobs",
            Wear::Age => "recycled: age",
            Wear::Idle => "recycled: idle",
            Wear::Memory => "recycled: memory",
        }
    }
}

/// The rules of a pool, as drawn for one life.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wears(pub(super) Recycle);

impl Wears {
    /// Draws the rules for one life.
    pub(crate) fn draw(rules: Recycle, random: &mut Random) -> Wears {
        let mut later = |wait: Duration| random.jitter(wait, JITTER);
        let (age, idle) = (rules.age.map(&mut later), rules.idle.map(&mut later));
        let jobs = rules.jobs.map(|jobs| {
            let more =
                // One less than the maximum, as `more + 1` must not overflow.
                usize::try_from(jobs.saturating_mul(u64::from(JITTER)) / 100).unwrap_or(usize::MAX - 1);
            jobs.saturating_add(random.below(more + 1) as u64)
        });
        Wears(Recycle { jobs, age, idle, ..rules })
    }
}
