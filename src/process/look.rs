//! One look at a tree: whether it takes too much, and when to look again.

use std::time::Duration;

use super::weight::Tree;
use crate::model::{Excess, Instant, Limits};

/// The fastest a tree is taken to grow, in bytes a second, and in processes.
const BYTES_A_SECOND: u64 = 2_000_000_000;
const PROCESSES_A_SECOND: u64 = 5_000;

/// No tree is looked at more often than this, nor more seldom while it runs.
pub(super) const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// A tree that seems to be over its limit by so many bytes is looked at at any cost.
const MARGIN: u64 = 32_000_000;

/// An excess is told again after so long, should the one it was told of have ended meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// What is remembered from one look to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Memo {
    /// The CPU time its tree had used before the job.
    cpu_before: Option<Duration>,
    /// How much less memory it takes than its processes' resident memory adds up to, as far as that was looked at.
    shared: Option<u64>,
    /// When that may be looked at again.
    pub(super) dear_from: Option<Instant>,
}

/// What one look at a tree has shown, and when to look again.
pub(super) struct Look {
    pub(super) excess: Option<Excess>,
    pub(super) memo: Memo,
    pub(super) next: Duration,
    /// Whether the kernel had to go through all pages.
    pub(super) was_dear: bool,
}

impl Look {
    pub(super) fn at(now: Instant, pid: i32, limits: &Limits, memo: Memo) -> Look {
        let most = limits.processes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let tree = Tree::of(pid, most);
        let mut look = Look { excess: None, memo, next: LONGEST, was_dear: false };
        look.count(&tree, limits.processes);
        look.time(&tree, limits.cpu);
        look.weigh(now, &tree, limits.memory);
        look.next = if look.excess.is_some() { AGAIN } else { look.next.max(SHORTEST) };
        look
    }

    fn count(&mut self, tree: &Tree, limit: Option<u64>) {
        let Some(limit) = limit else { return };
        let found = tree.len() as u64;
        if found > limit {
            self.excess = Some(Excess::Processes(limit, found));
        }
        let left = limit.saturating_sub(found) as f64;
        self.next = self.next.min(Duration::from_secs_f64(left / PROCESSES_A_SECOND as f64));
    }

    /// A tree uses no more CPU time than there are processors.
    fn time(&mut self, tree: &Tree, limit: Option<Duration>) {
        let Some(limit) = limit else { return };
        let before = *self.memo.cpu_before.get_or_insert(tree.cpu);
        let used = tree.cpu.saturating_sub(before);
        if used > limit {
            self.excess = self.excess.or(Some(Excess::Cpu(limit, used)));
        }
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.next = self.next.min(limit.saturating_sub(used) / processors as u32);
    }

    /// The dear look is taken half way to the limit, so that the cheap ones are nearly right from there on, and when these
    /// say that it is too much.
    fn weigh(&mut self, now: Instant, tree: &Tree, limit: Option<u64>) {
        let Some(limit) = limit else { return };
        let resident = tree.resident();
        let mut taken = resident.saturating_sub(self.memo.shared.unwrap_or(0));
        let may_look = self.memo.dear_from.is_none_or(|from| from <= now) || taken > limit + MARGIN;
        if taken > limit && may_look || self.memo.shared.is_none() && resident > limit / 2 {
            taken = tree.memory();
            (self.memo.shared, self.was_dear) = (Some(resident.saturating_sub(taken)), true);
            if taken > limit {
                self.excess = self.excess.or(Some(Excess::Memory(limit, taken)));
            }
        }
        let left = limit.saturating_sub(taken) as f64;
        self.next = self.next.min(Duration::from_secs_f64(left / BYTES_A_SECOND as f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn a_tree_far_from_its_limit_is_looked_at_seldom_and_one_that_is_close_often() {
        let look = |limits| Look::at(Instant(0), own(), &limits, Memo::default()).next;
        let memory = |memory| look(Limits { memory: Some(memory), ..Limits::default() });
        assert_eq!(memory(1 << 50), LONGEST);
        let taken = Tree::of(own(), usize::MAX).memory();
        assert!(memory(taken + 200_000_000) < LONGEST / 5);
        assert_eq!(look(Limits { processes: Some(1), ..Limits::default() }), SHORTEST);
    }

    #[test]
    fn cpu_time_counts_from_the_first_look_on() {
        let limits = Limits { cpu: Some(Duration::from_secs(9)), ..Limits::default() };
        let first = Look::at(Instant(0), own(), &limits, Memo::default());
        assert_eq!((first.excess, first.memo.cpu_before.is_some()), (None, true));
        let memo = Memo { cpu_before: Some(Duration::ZERO), ..Memo::default() };
        let mut later = Look { excess: None, memo, next: LONGEST, was_dear: false };
        let mut tree = Tree::default();
        tree.cpu = Duration::from_secs(10);
        later.time(&tree, limits.cpu);
        assert_eq!(later.excess, Some(Excess::Cpu(Duration::from_secs(9), Duration::from_secs(10))));
    }
}
