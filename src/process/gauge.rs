//! Who takes too much: a thread of its own looks at the trees that have limits, the closer to them the more often.
//!
//! It sleeps while no job with such a limit runs. A tree is looked at again when it could have reached its limit, were it to
//! grow as fast as a machine can make it; so a tree far from it costs next to nothing, and one close to it is caught in time.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::weight::Tree;
use crate::model::{Excess, Fence, Instant, JobId, Limits, WorkerId};

/// The fastest a tree is taken to grow, in bytes a second, and in processes.
const BYTES_A_SECOND: u64 = 2_000_000_000;
const PROCESSES_A_SECOND: u64 = 5_000;

/// No tree is looked at more often than this, nor more seldom while it runs.
const SHORTEST: Duration = Duration::from_millis(5);
const LONGEST: Duration = Duration::from_secs(1);

/// Of the time of one processor, looking at a tree takes no more than one part in so many.
const THRIFT: u32 = 10;

/// An excess is told again after so long, should the one it was told of have ended meanwhile.
const AGAIN: Duration = Duration::from_secs(1);

/// Where jobs are very short a worker is not weighed after each.
const WEIGH_AGAIN: Duration = Duration::from_millis(50);

/// What the gauge has to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The job has taken more than it may; of several in one worker, one of them.
    Exceeded(WorkerId, JobId, Fence, Excess),
    /// After a job the worker has more memory than its pool recycles at.
    Outgrown(WorkerId),
}

/// What the clock says.
pub type Now = fn() -> Instant;

/// Keeps the thread; it ends with the last of these.
pub struct Gauge(Arc<Shared>);

struct Shared {
    board: Mutex<Board>,
    changed: Condvar,
    now: Now,
}

/// What is to be looked at.
#[derive(Default)]
struct Board {
    watches: HashMap<WorkerId, Watch>,
    weighings: HashMap<WorkerId, Weighing>,
    /// When the next worker may be weighed.
    weigh_from: Option<Instant>,
    over: bool,
}

/// A life with jobs that have limits.
struct Watch {
    pid: i32,
    limits: Limits,
    jobs: Vec<(JobId, Fence)>,
    due: Instant,
    memo: Memo,
}

/// What is remembered from one look to the next.
#[derive(Clone, Copy, Default)]
struct Memo {
    /// The CPU time its tree had used before the job.
    cpu_before: Option<Duration>,
    /// How much less memory it takes than its processes' resident memory adds up to.
    shared: u64,
}

/// A worker to be weighed after a job: its pid, and how much is too much.
#[derive(Clone, Copy)]
struct Weighing {
    pid: i32,
    most: u64,
}

/// A job's entry, for as long as it runs.
pub(super) struct Entry {
    shared: Arc<Shared>,
    worker: WorkerId,
    job: JobId,
    fence: Fence,
}

impl Gauge {
    /// Starts the thread. What it finds is handed to `tell`.
    pub fn start(now: Now, tell: impl Fn(Found) + Send + 'static) -> io::Result<Gauge> {
        let shared = Arc::new(Shared { board: Mutex::default(), changed: Condvar::new(), now });
        let own = shared.clone();
        std::thread::Builder::new()
            .name("tv-gauge".into())
            .stack_size(256 << 10)
            .spawn(move || own.serve(tell))?;
        Ok(Gauge(shared))
    }

    /// Watches the tree below a life for one of its jobs, if the limits ask for it.
    pub(super) fn watch(
        &self,
        worker: WorkerId,
        pid: i32,
        (job, fence): (&JobId, Fence),
        limits: Limits,
    ) -> Option<Entry> {
        if !limits.are_of_tree() {
            return None;
        }
        let due = (self.0.now)();
        let mut board = self.0.board();
        let watch = board.watches.entry(worker).or_insert_with(|| Watch {
            pid,
            limits,
            jobs: Vec::new(),
            due,
            memo: Memo::default(),
        });
        watch.jobs.push((job.clone(), fence));
        drop(board);
        self.0.changed.notify_one();
        Some(Entry { shared: self.0.clone(), worker, job: job.clone(), fence })
    }

    /// Weighs a worker that has ended a job.
    pub(super) fn weigh(&self, worker: WorkerId, pid: i32, most: u64) {
        let before = self.0.board().weighings.insert(worker, Weighing { pid, most });
        if before.is_none() {
            self.0.changed.notify_one();
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

    fn serve(&self, tell: impl Fn(Found)) {
        while let Some((watches, weighings)) = self.wait() {
            for (worker, weighing) in weighings {
                if weighing.is_too_much() {
                    tell(Found::Outgrown(worker));
                }
            }
            for (worker, pid, limits, memo) in watches {
                let begun = (self.now)();
                let look = Look::at(pid, &limits, memo);
                let now = (self.now)();
                let wait = look.next.max(now.since(begun) * THRIFT);
                if let Some(found) = self.board().note(worker, &look, now + wait) {
                    tell(found);
                }
            }
        }
    }

    /// Waits until something is to be looked at, and gives it. None when it is over.
    #[expect(clippy::type_complexity, reason = "it is taken apart where it is asked for")]
    fn wait(&self) -> Option<(Vec<(WorkerId, i32, Limits, Memo)>, Vec<(WorkerId, Weighing)>)> {
        let mut board = self.board();
        loop {
            if board.over {
                return None;
            }
            let now = (self.now)();
            let found = board.due(now);
            if !found.0.is_empty() || !found.1.is_empty() {
                return Some(found);
            }
            let waited = match board.next() {
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
    #[expect(clippy::type_complexity, reason = "as in `wait`")]
    fn due(&mut self, now: Instant) -> (Vec<(WorkerId, i32, Limits, Memo)>, Vec<(WorkerId, Weighing)>) {
        let due = self.watches.iter().filter(|(_, watch)| watch.due <= now);
        let watches = due.map(|(worker, watch)| (*worker, watch.pid, watch.limits, watch.memo)).collect();
        let mut weighings = Vec::new();
        if self.weigh_from.is_none_or(|from| from <= now) && !self.weighings.is_empty() {
            weighings.extend(self.weighings.drain());
            self.weigh_from = Some(now + WEIGH_AGAIN);
        }
        (watches, weighings)
    }

    fn next(&self) -> Option<Instant> {
        let weigh = self.weigh_from.filter(|_| !self.weighings.is_empty());
        self.watches.values().map(|watch| watch.due).chain(weigh).min()
    }

    /// Notes what was seen, if the same jobs are there still, and when to look again.
    fn note(&mut self, worker: WorkerId, look: &Look, due: Instant) -> Option<Found> {
        let watch = self.watches.get_mut(&worker)?;
        (watch.memo, watch.due) = (look.memo, due);
        let excess = look.excess?;
        let (job, fence) = watch.jobs.first()?;
        Some(Found::Exceeded(worker, job.clone(), *fence, excess))
    }
}

impl Weighing {
    fn is_too_much(self) -> bool {
        let tree = Tree::of(self.pid, usize::MAX);
        tree.resident() > self.most && tree.memory() > self.most
    }
}

/// What one look at a tree has shown, and when to look again.
struct Look {
    excess: Option<Excess>,
    memo: Memo,
    next: Duration,
}

impl Look {
    fn at(pid: i32, limits: &Limits, memo: Memo) -> Look {
        let most = limits.processes.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX));
        let tree = Tree::of(pid, most);
        let mut look = Look { excess: None, memo, next: LONGEST };
        look.count(&tree, limits.processes);
        look.time(&tree, limits.cpu);
        look.weigh(&tree, limits.memory);
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

    /// The dear look is taken only when the cheap one says that it may be too much.
    fn weigh(&mut self, tree: &Tree, limit: Option<u64>) {
        let Some(limit) = limit else { return };
        let resident = tree.resident();
        let mut taken = resident.saturating_sub(self.memo.shared);
        if taken > limit {
            taken = tree.memory();
            self.memo.shared = resident.saturating_sub(taken);
        }
        if taken > limit {
            self.excess = self.excess.or(Some(Excess::Memory(limit, taken)));
        }
        let left = limit.saturating_sub(taken) as f64;
        self.next = self.next.min(Duration::from_secs_f64(left / BYTES_A_SECOND as f64));
    }
}
