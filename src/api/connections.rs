//! Who is connected. When all places are taken, a client that asks nothing makes room for the next one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// A client that has just come or just been answered may be about to ask.
const SPARED: Duration = Duration::from_secs(1);

/// The connections there are, the oldest first.
pub(super) struct OpenConnections {
    places: usize,
    guests: Vec<(AbortHandle, Arc<Activity>)>,
}

impl OpenConnections {
    pub(super) fn new(places: usize) -> OpenConnections {
        OpenConnections { places, guests: Vec::new() }
    }

    /// Whether there is room for one more; the oldest idle connection is closed for it if need be. Strangers have as many
    /// places of their own, and of them the oldest goes whatever it does: a crowd of them keeps nobody out who knows the
    /// token, as long as that one says so before the crowd has filled all places again.
    pub(super) fn has_room(&mut self) -> bool {
        self.guests.retain(|(task, _)| !task.is_finished());
        let strangers = self.guests.iter().filter(|(_, doing)| doing.is_stranger()).count();
        let known = self.guests.len() - strangers;
        if strangers >= self.places
            && let Some(oldest) = self.guests.iter().position(|(_, doing)| doing.is_stranger())
        {
            self.guests.remove(oldest).0.abort();
        }
        if known < self.places {
            return true;
        }
        let idle = self.guests.iter().position(|(_, doing)| !doing.is_stranger() && doing.is_idle());
        if let Some(at) = idle {
            self.guests.remove(at).0.abort();
        }
        idle.is_some()
    }

    pub(super) fn add(&mut self, task: AbortHandle, doing: Arc<Activity>) {
        self.guests.push((task, doing));
    }
}

/// What one client does.
pub(super) struct Activity(Mutex<What>);

struct What {
    /// It has not shown yet that it may come in.
    stranger: bool,
    /// It waits for an answer.
    asked: bool,
    /// It has not taken all of its answer.
    stalled: bool,
    since: Instant,
}

impl Activity {
    pub(super) fn new(stranger: bool) -> Activity {
        Activity(Mutex::new(What { stranger, asked: false, stalled: false, since: Instant::now() }))
    }

    /// It has shown that it may come in.
    pub(super) fn is_known_now(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stranger = false;
    }

    fn is_stranger(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stranger
    }

    /// From now on it waits for an answer, until this is dropped with the last of it.
    pub(super) fn ask(self: &Arc<Self>) -> Asking {
        self.change(|what| what.asked = true);
        Asking(self.clone())
    }

    pub(super) fn stalled(&self, stalled: bool) {
        self.change(|what| what.stalled = stalled);
    }

    fn change(&self, change: impl FnOnce(&mut What)) {
        let mut what = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut what);
        what.since = Instant::now();
    }

    fn is_idle(&self) -> bool {
        let what = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        !what.asked && !what.stalled && what.since.elapsed() >= SPARED
    }
}

/// A request whose answer is not at its end.
pub(super) struct Asking(Arc<Activity>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.change(|what| what.asked = false);
    }
}
