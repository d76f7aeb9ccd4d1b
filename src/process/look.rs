//! One measurement of a tree: whether it exceeds a limit, and when to measure again.

use std::time::Duration;

use super::stand::{self, Stands};
use super::weight::Tree;
use model::{Excess, Instant, Limits};

/// The fastest possible growth of a tree, in bytes a second, and in processes.
const BYTES_A_SECOND: u64 = 2_000_000_000;
const PROCESSES_A_SECOND: u64 = 5_000;

/// Shortest and longest time between two measurements of a running tree.
pub(super) const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// A tree that seems to exceed its limit by this many bytes is measured whatever it costs.
const MARGIN: u64 = 32_000_000;

/// An excess is reported again after this time, in case the worker in the first report ended meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// State that lasts from one measurement to the next.
#[derive(Clone, Copy, Default)]
pub(super) struct Memo {
    /// CPU time that its tree had used before the job.
    cpu_before: Option<Duration>,
    /// By how much its memory is less than the sum of its processes' resident memory, at the last exact measurement.
    shared: Option<u64>,
    /// When the next exact measurement is allowed.
    pub(super) dear_from: Option<Instant>,
    stand: stand::Memo,
}

/// The result of one measurement, and when to measure again.
pub(super) struct Look {
    pub(super) excess: Option<Excess>,
    /// Whether its first process stands or goes on.
    pub(super) stands: Option<Stands>,
    pub(super) memo: Memo,
    pub(super) next: Duration,
    /// Whether the kernel had to walk through all pages.
    pub(super) was_dear: bool,
}

impl Look {
    /// Looks whether the process stands if that is done at an interval.
    pub(super) fn at(
        now: Instant,
        (pid, interval): (i32, Option<Duration>),
        limits: &Limits,
        memo: Memo,
    ) -> Look {
        let mut look = Look { excess: None, stands: None, memo, next: LONGEST, was_dear: false };
        if let Some(interval) = interval {
            (look.stands, look.next) = (look.memo.stand.look(now, pid, interval), interval);
        }
        if !limits.are_of_tree() {
            return look;
        }
        look.next = look.next.min(LONGEST);
        let most = limits.processes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let tree = Tree::of(pid, most);
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

    /// Checks CPU time. A tree cannot use more CPU time than all processors give.
    fn time(&mut self, tree: &Tree, limit: Option<Duration>) {
        let Some(limit) = limit else { return };
        let before = *self.memo.cpu_before.get_or_insert(tree.cpu);
        let used = tree.cpu.saturating_sub(before);
        if used > limit {
            // One excess is reported, the first that was found.
            self.excess = self.excess.or(Some(Excess::Cpu(limit, used)));
        }
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.next = self.next.min(limit.saturating_sub(used) / processors as u32);
    }

    /// Checks memory. An exact measurement is made half way to the limit, so that cheap ones are nearly right from
    /// there on; and again when these say that it is too much.
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
    fn process_tree_is_polled_more_often_close_to_its_limit() {
        let look = |limits| Look::at(Instant(0), (own(), None), &limits, Memo::default()).next;
        let memory = |memory| look(Limits { memory: Some(memory), ..Limits::default() });
        assert_eq!(memory(1 << 50), LONGEST);
        let taken = Tree::of(own(), usize::MAX).memory();
        assert!(memory(taken + 200_000_000) < LONGEST / 5);
        assert_eq!(look(Limits { processes: Some(1), ..Limits::default() }), SHORTEST);
    }

    #[test]
    fn cpu_time_counts_from_the_first_poll() {
        let limits = Limits { cpu: Some(Duration::from_secs(9)), ..Limits::default() };
        let first = Look::at(Instant(0), (own(), None), &limits, Memo::default());
        assert_eq!((first.excess, first.memo.cpu_before.is_some()), (None, true));
        let memo = Memo { cpu_before: Some(Duration::ZERO), ..Memo::default() };
        let mut later = Look { excess: None, stands: None, memo, next: LONGEST, was_dear: false };
        let mut tree = Tree::default();
        tree.cpu = Duration::from_secs(10);
        later.time(&tree, limits.cpu);
        assert_eq!(later.excess, Some(Excess::Cpu(Duration::from_secs(9), Duration::from_secs(10))));
    }
}
