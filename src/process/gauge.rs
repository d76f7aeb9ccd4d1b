//! Measures which jobs exceed their limits: a thread measures process trees with limits, more often when they are close
//! to them.
//!
//! The thread sleeps while no job with such a limit runs. It measures a tree again at the earliest moment at which the
//! tree could reach its limit, if it grew as fast as a machine allows. So a tree far from its limit costs next to
//! nothing, and one close to it is caught in time.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::look::{Look, Memo, SHORTEST};
use super::stand::{self, Stands};
use super::weight::Tree;
use model::{Excess, Fence, Instant, JobId, Limits, WorkerId};

/// Measuring a tree takes at most this fraction of one processor's time, unless the tree seems to be well over its
/// limit.
const THRIFT: u32 = 10;

/// A worker with very short jobs is not measured after each of them, but at this interval.
const WEIGH_AGAIN: Duration = Duration::from_millis(50);

/// A finding of the gauge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The job exceeds a limit; of several jobs in one worker, one of them.
    Exceeded {
        /// The worker that runs it.
        worker: WorkerId,
        /// The job that is over its limit.
        job: JobId,
        /// The number of its lease.
        fence: Fence,
        /// The limit, and the larger figure that was found.
        excess: Excess,
    },
    /// The first process of the worker is stopped by a signal.
    Stands {
        /// The worker whose process it is.
        worker: WorkerId,
        /// The time since the look before.
        stood: Duration,
        /// For how long it has stood; None = it goes on.
        since: Option<Duration>,
    },
    /// After a job the worker has more memory than its pool allows before it recycles.
    Outgrown(WorkerId),
}

/// The clock to use.
pub(crate) type Now = fn() -> Instant;

/// A handle of the thread, which ends with the last handle.
pub struct Gauge(Arc<Shared>);

struct Shared {
    board: Mutex<Board>,
    changed: Condvar,
    now: Now,
}

/// The trees to measure.
#[derive(Default)]
struct Board {
    watches: HashMap<WorkerId, Watch>,
    weighings: HashMap<WorkerId, Weighing>,
    /// When the next worker may be measured for its pool's recycling.
    weigh_from: Option<Instant>,
    /// How many watches there have been.
    count: u64,
    /// The time at which the thread wakes without an event.
    wakes: Option<Instant>,
    over: bool,
}

/// A life with jobs that have limits.
struct Watch {
    tended: Tended,
    jobs: Vec<(JobId, Fence)>,
    due: Instant,
}

/// The data for measuring a life.
#[derive(Clone, Copy)]
struct Tended {
    /// Number of this watch: the next job of a worker gets another one.
    number: u64,
    pid: i32,
    limits: Limits,
    /// Time between two looks whether it stands.
    stand: Option<Duration>,
    memo: Memo,
}

/// A worker to measure after a job: its pid, and the memory that is too much.
#[derive(Clone, Copy)]
struct Weighing {
    pid: i32,
    most: u64,
}

/// The trees to measure now.
struct Due {
    watches: Vec<(WorkerId, Tended)>,
    weighings: Vec<(WorkerId, Weighing)>,
}

/// A job's entry, which exists as long as it runs.
pub(super) struct Entry {
    shared: Arc<Shared>,
    worker: WorkerId,
    job: JobId,
    fence: Fence,
}

impl Gauge {
    /// Starts the thread, which passes its findings to `tell`.
    pub fn start(now: Now, tell: impl Fn(Found) + Send + 'static) -> io::Result<Gauge> {
        let shared = Arc::new(Shared { board: Mutex::default(), changed: Condvar::new(), now });
        let own = shared.clone();
        std::thread::Builder::new()
            .name("tv-gauge".into())
            .stack_size(256 << 10)
            .spawn(move || own.serve(tell))?;
        Ok(Gauge(shared))
    }

    /// Watches the tree below a life for one of its jobs, if the limits require it, or a worker may keep some itself.
    pub(super) fn watch(
        &self,
        worker: WorkerId,
        pid: i32,
        (job, fence): (&JobId, Fence),
        limits: Limits,
        is_worker: bool,
    ) -> Option<Entry> {
        let stand = stand::interval(&limits, is_worker);
        // A job that has ended by then costs nothing, and has not used much.
        let soon = if limits.are_of_tree() { SHORTEST } else { stand? };
        let due = (self.0.now)() + soon;
        let mut board = self.0.board();
        board.count += 1;
        let tended = Tended { number: board.count, pid, limits, stand, memo: Memo::default() };
        let watch = board.watches.entry(worker).or_insert_with(|| Watch { tended, jobs: Vec::new(), due });
        watch.jobs.push((job.clone(), fence));
        watch.tended.stand = [watch.tended.stand, stand].into_iter().flatten().min();
        watch.due = watch.due.min(due);
        self.0.wake_by(&board, due);
        drop(board);
        Some(Entry { shared: self.0.clone(), worker, job: job.clone(), fence })
    }

    /// A life that was watched before it had a process has one.
    pub(super) fn born(&self, worker: WorkerId, pid: i32) {
        let mut board = self.0.board();
        let due = (self.0.now)() + SHORTEST;
        let Some(watch) = board.watches.get_mut(&worker) else { return };
        (watch.tended.pid, watch.due) = (pid, due);
        self.0.wake_by(&board, due);
    }

    /// Measures a worker that has ended a job.
    pub(super) fn weigh(&self, worker: WorkerId, pid: i32, most: u64) {
        let mut board = self.0.board();
        // If one waits already, the thread wakes for it.
        if board.weighings.insert(worker, Weighing { pid, most }).is_none() {
            let due = board.weigh_from.unwrap_or(Instant(0));
            self.0.wake_by(&board, due);
        }
    }
}

impl Drop for Gauge {
    fn drop(&mut self) {
        self.0.board().over = true;
        self.0.changed.notify_one();
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut board = self.shared.board();
        let Some(watch) = board.watches.get_mut(&self.worker) else { return };
        watch.jobs.retain(|(job, fence)| (job, *fence) != (&self.job, self.fence));
        if watch.jobs.is_empty() {
            board.watches.remove(&self.worker);
        }
    }
}

impl Shared {
    fn board(&self) -> MutexGuard<'_, Board> {
        self.board.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the thread, unless it wakes in time by itself.
    fn wake_by(&self, board: &Board, due: Instant) {
        if board.wakes.is_none_or(|wakes| due < wakes) {
            self.changed.notify_one();
        }
    }

    fn serve(&self, tell: impl Fn(Found)) {
        while let Some(Due { watches, weighings }) = self.wait() {
            for (worker, weighing) in weighings {
                if weighing.is_too_much() {
                    tell(Found::Outgrown(worker));
                }
            }
            for (worker, Tended { number, pid, limits, stand, memo }) in watches {
                let begun = (self.now)();
                let mut look = Look::at(begun, (pid, stand), &limits, memo);
                let now = (self.now)();
                let thrift = now.since(begun) * THRIFT;
                // After a dear measurement only the next dear one waits: cheap ones go on.
                if look.was_dear {
                    look.memo.dear_from = Some(now + thrift);
                } else {
                    look.next = look.next.max(thrift);
                }
                for found in self.board().note((worker, number), &look, now).into_iter().flatten().flatten() {
                    tell(found);
                }
            }
        }
    }

    /// Waits until something must be measured, and gives it. None when the thread must end.
    fn wait(&self) -> Option<Due> {
        let mut board = self.board();
        loop {
            if board.over {
                return None;
            }
            let now = (self.now)();
            let due = board.due(now);
            if !due.watches.is_empty() || !due.weighings.is_empty() {
                return Some(due);
            }
            board.wakes = board.next();
            let waited = match board.wakes {
                Some(next) => {
                    let waited = self.changed.wait_timeout(board, next.since(now));
                    waited.map(|(board, _)| board).map_err(|poisoned| poisoned.into_inner().0)
                }
                None => self.changed.wait(board).map_err(PoisonError::into_inner),
            };
            board = waited.unwrap_or_else(|board| board);
        }
    }
}

impl Board {
    fn due(&mut self, now: Instant) -> Due {
        let due = self.watches.iter().filter(|(_, watch)| watch.due <= now);
        let watches = due.map(|(worker, watch)| (*worker, watch.tended)).collect();
        let mut weighings = Vec::new();
        if self.weigh_from.is_none_or(|from| from <= now) && !self.weighings.is_empty() {
            weighings.extend(self.weighings.drain());
            self.weigh_from = Some(now + WEIGH_AGAIN);
        }
        Due { watches, weighings }
    }

    fn next(&self) -> Option<Instant> {
        let weigh = self.weigh_from.filter(|_| !self.weighings.is_empty());
        self.watches.values().map(|watch| watch.due).chain(weigh).min()
    }

    /// Notes a measurement and when to measure again, unless the jobs have ended meanwhile.
    fn note(
        &mut self,
        (worker, number): (WorkerId, u64),
        look: &Look,
        now: Instant,
    ) -> Option<[Option<Found>; 2]> {
        let watch = self.watches.get_mut(&worker).filter(|watch| watch.tended.number == number)?;
        (watch.tended.memo, watch.due) = (look.memo, now + look.next);
        let stands = look.stands.map(|Stands { stood, since }| Found::Stands { worker, stood, since });
        let (job, fence) = watch.jobs.first()?;
        let exceeded =
            look.excess.map(|excess| Found::Exceeded { worker, job: job.clone(), fence: *fence, excess });
        Some([stands, exceeded])
    }
}

impl Weighing {
    fn is_too_much(self) -> bool {
        let tree = Tree::of(self.pid, usize::MAX);
        // The exact figure costs a walk through all pages: only where the cheap one, never less, says too much.
        tree.resident() > self.most && tree.memory() > self.most
    }
}

#[cfg(test)]
mod tests {
    use std::sync::OnceLock;
    use std::sync::mpsc::channel;

    use super::*;
    use model::SlotId;

    const WORKER: WorkerId = WorkerId { slot: SlotId { pool: 0, index: 1 }, generation: 1 };

    fn gauge() -> (Gauge, std::sync::mpsc::Receiver<Found>) {
        let (told, found) = channel();
        let gauge = Gauge::start(now, move |found| drop(told.send(found))).unwrap();
        (gauge, found)
    }

    fn now() -> Instant {
        static START: OnceLock<std::time::Instant> = OnceLock::new();
        let start = START.get_or_init(std::time::Instant::now);
        Instant(0) + start.elapsed()
    }

    fn own() -> i32 {
        std::process::id() as i32
    }

    #[test]
    fn an_exceeded_limit_is_reported_for_the_running_job() {
        let limits = Limits { memory: Some(1), ..Limits::default() };
        let look = Look::at(Instant(0), (own(), None), &limits, Memo::default());
        let (gauge, _found) = gauge();
        let entry = gauge.watch(WORKER, own(), (&"a".into(), Fence(2)), limits, false);
        let note = || gauge.0.board().note((WORKER, 1), &look, Instant(0));
        let Some([None, Some(found)]) = note() else { panic!() };
        let Found::Exceeded { worker: WORKER, job, fence: Fence(2), excess: Excess::Memory(1, taken) } =
            found
        else {
            panic!()
        };
        assert!(job.as_str() == "a" && taken > 1);
        drop(entry);
        let _next = gauge.watch(WORKER, own(), (&"b".into(), Fence(3)), limits, false);
        assert_eq!(note(), None, "it has ended meanwhile");
    }

    #[test]
    fn only_a_worker_over_its_recycle_size_is_reported() {
        let (gauge, found) = gauge();
        let other = WorkerId { generation: 2, ..WORKER };
        gauge.weigh(other, own(), u64::MAX);
        gauge.weigh(WORKER, own(), 1);
        assert_eq!(found.recv(), Ok(Found::Outgrown(WORKER)));
    }

    #[test]
    fn job_without_process_tree_limits_is_not_watched() {
        let (gauge, _found) = gauge();
        let limits = Limits { output: Some(1), ..Limits::default() };
        assert!(gauge.watch(WORKER, own(), (&"a".into(), Fence(1)), limits, false).is_none());
        assert!(gauge.0.board().watches.is_empty());
    }

    #[test]
    fn worker_is_looked_at_in_time_for_a_job_that_joins_another_with_a_longer_limit() {
        let (gauge, _found) = gauge();
        let long = Limits { time: Some(Duration::from_secs(3600)), ..Limits::default() };
        let _long = gauge.watch(WORKER, own(), (&"a".into(), Fence(1)), long, false);
        let before = gauge.0.board().next().unwrap();
        let short = Limits { time: Some(Duration::from_secs(2)), ..Limits::default() };
        let _short = gauge.watch(WORKER, own(), (&"b".into(), Fence(2)), short, false);
        let due = gauge.0.board().next().unwrap();
        assert!(due < before, "{due:?} {before:?}");
    }
}
