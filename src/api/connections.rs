//! The open connections. When all places are taken, an idle client makes room for the next one. A client that waits for
//! something takes none of these places: waits have a budget of their own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use super::Problem;
use super::limits::Limits;

/// A client that has connected or got an answer within this time may be about to send a request.
const SPARED: Duration = Duration::from_secs(1);
/// A new client waits this long for a place, counted from when all were first found taken. A crowd that connects at once
/// and then waits has left its places by then.
const PATIENCE: Duration = Duration::from_secs(2);
/// Share of the places that is kept for the owner, where others may come in too: one of 16.
const OTHERS: usize = 16;

/// The open connections, the oldest first.
pub(super) struct OpenConnections {
    places: usize,
    guests: Vec<(AbortHandle, Arc<Activity>)>,
    shared: Arc<Shared>,
    /// Since when there has been no place: for the owner, for others.
    full: [Option<Instant>; 2],
}

/// What all connections of a door share.
struct Shared {
    /// One permit for each request that waits.
    waits: Arc<Semaphore>,
    /// One permit for each output that is followed.
    follows: Arc<Semaphore>,
    /// One permit for each job of a request that waits for many.
    jobs: Arc<Semaphore>,
    limits: Limits,
    /// A place may have become free.
    changed: Notify,
}

impl OpenConnections {
    pub(super) fn new(limits: Limits) -> OpenConnections {
        let waits = Arc::new(Semaphore::new(limits.waits));
        let follows = Arc::new(Semaphore::new(limits.follows));
        let jobs = Arc::new(Semaphore::new(limits.jobs));
        let shared = Arc::new(Shared { waits, follows, jobs, limits, changed: Notify::new() });
        OpenConnections { places: limits.connections, guests: Vec::new(), shared, full: [None; 2] }
    }

    /// The activity of a new client.
    pub(super) fn activity(&self, stranger: bool) -> Arc<Activity> {
        let since = Instant::now();
        let what =
            What { stranger, wait: None, jobs: None, asked: false, stalled: false, over: false, since };
        Arc::new(Activity { what: Mutex::new(what), shared: self.shared.clone() })
    }

    /// Whether there is room for one more, after a moment's patience; `reserved` says whether it may have a place that is
    /// kept for the owner.
    pub(super) async fn room(&mut self, reserved: bool) -> bool {
        let shared = self.shared.clone();
        loop {
            let now = Instant::now();
            let has_room = self.has_room(reserved);
            let full = &mut self.full[usize::from(!reserved)];
            if has_room {
                *full = None;
                return true;
            }
            let end = *full.get_or_insert(now) + PATIENCE;
            if now >= end {
                return false;
            }
            let next = self.next_idle().map_or(end, |next| next.min(end));
            let _ = timeout_at(next, shared.changed.notified()).await;
        }
    }

    /// Whether there is room for one more; if needed, closes the oldest idle connection. Clients that have not shown
    /// the token yet have places of their own, of which the oldest is closed whatever it does. So a crowd of them does
    /// not keep out a client with the token, as long as that one shows it before the crowd has filled all places again.
    fn has_room(&mut self, reserved: bool) -> bool {
        self.guests.retain(|(task, doing)| !task.is_finished() && !doing.what().over);
        let (mut strangers, mut known) = (0, 0);
        for (_, doing) in &self.guests {
            match &*doing.what() {
                What { stranger: true, .. } => strangers += 1,
                // Requests that wait have a limit of their own.
                What { wait: Some(_), .. } => {}
                What { .. } => known += 1,
            }
        }
        if strangers >= self.places
            && let Some(oldest) = self.guests.iter().position(|(_, doing)| doing.what().stranger)
        {
            self.guests.remove(oldest).0.abort();
        }
        let kept = if reserved { 0 } else { self.places / OTHERS };
        known + kept < self.places || self.close_idle(false)
    }

    /// Closes the oldest idle connection, of a stranger only if those count; gives whether there was one.
    pub(super) fn close_idle(&mut self, strangers_count: bool) -> bool {
        let now = Instant::now();
        let is_idle = |what: &What| {
            (strangers_count || !what.stranger) && what.idle_at().is_some_and(|idle_at| idle_at <= now)
        };
        let idle = self.guests.iter().position(|(_, doing)| is_idle(&doing.what()));
        if let Some(at) = idle {
            self.guests.remove(at).0.abort();
        }
        idle.is_some()
    }

    /// When the next connection has been idle for long enough to be closed.
    fn next_idle(&self) -> Option<Instant> {
        let idle_at = |(_, doing): &(AbortHandle, Arc<Activity>)| {
            let what = doing.what();
            what.idle_at().filter(|_| !what.stranger)
        };
        self.guests.iter().filter_map(idle_at).min()
    }

    pub(super) fn add(&mut self, task: AbortHandle, doing: Arc<Activity>) {
        self.guests.push((task, doing));
    }
}

/// The activity of one client.
pub struct Activity {
    what: Mutex<What>,
    shared: Arc<Shared>,
}

struct What {
    /// It has not shown the token yet.
    stranger: bool,
    /// Its place among those that wait, while its request is one that waits.
    wait: Option<OwnedSemaphorePermit>,
    /// Its share of the jobs that all wait for.
    jobs: Option<OwnedSemaphorePermit>,
    /// It waits for an answer.
    asked: bool,
    /// It has not read all of its answer.
    stalled: bool,
    /// It has gone.
    over: bool,
    since: Instant,
}

impl What {
    /// When it may be closed to make room, if nothing happens until then.
    fn idle_at(&self) -> Option<Instant> {
        (!self.asked && !self.stalled).then(|| self.since + SPARED)
    }
}

impl Activity {
    fn what(&self) -> MutexGuard<'_, What> {
        self.what.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that it has shown the token.
    pub fn is_known_now(&self) {
        self.what().stranger = false;
    }

    /// Notes that it waits for an answer, until the returned value is dropped.
    pub(super) fn ask(self: &Arc<Self>) -> Asking {
        self.change(|what| what.asked = true);
        Asking(self.clone())
    }

    /// Notes that its request is one that waits, for as long as it takes. It is refused if too many do.
    pub fn waits(&self) -> Result<(), Problem> {
        let most = self.shared.limits.waits;
        let wait = self.shared.waits.clone().try_acquire_owned().map_err(|_| {
            Problem::unavailable(format!("{most} clients wait here or follow events already"))
                .hint("one POST /v1/wait waits for many jobs")
        })?;
        self.change(|what| what.wait = Some(wait));
        Ok(())
    }

    /// Notes that its request follows an output. It is refused if too many do.
    pub(super) fn follows(&self) -> Result<(), Problem> {
        let most = self.shared.limits.follows;
        let follow = self.shared.follows.clone().try_acquire_owned().map_err(|_| {
            Problem::unavailable(format!("{most} outputs are followed here already"))
                .hint("ask again without follow, from the offset that the answer ends with")
        })?;
        self.change(|what| what.wait = Some(follow));
        Ok(())
    }

    /// Sets the number of jobs that its request waits for. It is refused if all requests wait for too many.
    pub(super) fn waits_for(&self, count: usize) -> Result<(), Problem> {
        let Shared { jobs, limits, .. } = &*self.shared;
        let mut what = self.what();
        let held = what.jobs.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        if count < held {
            // What is split off goes back to the others when it is dropped.
            drop(what.jobs.as_mut().and_then(|share| share.split(held - count)));
            return Ok(());
        }
        let more = u32::try_from(count - held).unwrap_or(u32::MAX);
        let more = jobs.clone().try_acquire_many_owned(more).map_err(|_| {
            let (free, all) = (jobs.available_permits() + held, limits.jobs);
            Problem::unavailable(format!(
                "this request needs room for {count} jobs to wait for; {free} of {all} are free"
            ))
            .hint("wait for fewer jobs at a time, or ask again when others have ended")
        })?;
        match &mut what.jobs {
            Some(share) => share.merge(more),
            None => what.jobs = Some(more),
        }
        Ok(())
    }

    pub(super) fn stalled(&self, stalled: bool) {
        self.change(|what| what.stalled = stalled);
    }

    /// Notes that it has gone.
    pub(super) fn is_over(&self) {
        self.change(|what| what.over = true);
    }

    fn change(&self, change: impl FnOnce(&mut What)) {
        let mut what = self.what();
        change(&mut what);
        what.since = Instant::now();
        drop(what);
        // Only the loop of the door waits for this.
        self.shared.changed.notify_one();
    }
}

/// A request whose answer is not sent completely.
pub(super) struct Asking(Arc<Activity>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.change(|what| (what.asked, what.wait, what.jobs) = (false, None, None));
    }
}
