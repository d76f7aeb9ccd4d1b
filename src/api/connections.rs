//! The open connections. When all places are taken, an idle client makes room for the next one.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::task::AbortHandle;
use tokio::time::Instant;

/// A client that has connected or got an answer within this time may be about to send a request.
const SPARED: Duration = Duration::from_secs(1);

/// The open connections, the oldest first.
pub(super) struct OpenConnections {
    places: usize,
    guests: Vec<(AbortHandle, Arc<Activity>)>,
}

impl OpenConnections {
    pub(super) fn new(places: usize) -> OpenConnections {
        OpenConnections { places, guests: Vec::new() }
    }

    /// Whether there is room for one more; if needed, closes the oldest idle connection. Clients that have not shown
    /// the token yet have places of their own, of which the oldest is closed whatever it does. So a crowd of them does
    /// not keep out a client with the token, as long as that one shows it before the crowd has filled all places again.
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
        self.close_idle(false)
    }

    /// Closes the oldest idle connection, of a stranger only if those count; gives whether there was one.
    pub(super) fn close_idle(&mut self, strangers_count: bool) -> bool {
        let counts = |doing: &Activity| strangers_count || !doing.is_stranger();
        let idle = self.guests.iter().position(|(_, doing)| counts(doing) && doing.is_idle());
        if let Some(at) = idle {
            self.guests.remove(at).0.abort();
        }
        idle.is_some()
    }

    pub(super) fn add(&mut self, task: AbortHandle, doing: Arc<Activity>) {
        self.guests.push((task, doing));
    }
}

/// The activity of one client.
pub(super) struct Activity(Mutex<What>);

struct What {
    /// It has not shown the token yet.
    stranger: bool,
    /// It waits for an answer.
    asked: bool,
    /// It has not read all of its answer.
    stalled: bool,
    since: Instant,
}

impl Activity {
    pub(super) fn new(stranger: bool) -> Activity {
        Activity(Mutex::new(What { stranger, asked: false, stalled: false, since: Instant::now() }))
    }

    /// Notes that it has shown the token.
    pub(super) fn is_known_now(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stranger = false;
    }

    fn is_stranger(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).stranger
    }

    /// Notes that it waits for an answer, until the returned value is dropped.
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

/// A request whose answer is not sent completely.
pub(super) struct Asking(Arc<Activity>);

impl Drop for Asking {
    fn drop(&mut self) {
        self.0.change(|what| what.asked = false);
    }
}
