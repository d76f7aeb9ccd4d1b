//! Whether events of Redis arrive at the moment, and whether there are still subscribers.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use tokio::task::JoinHandle;

use broker::EventBus;
use common::Notices;

/// The task that publishes events while there are subscribers.
#[derive(Default)]
pub(super) struct Reporter(Mutex<Option<Reports>>);

struct Reports {
    task: JoinHandle<()>,
    /// Whether the first attempt to subscribe is over: from then on each event is reported, or a gap is.
    tried: watch::Receiver<bool>,
}

impl Reporter {
    fn reports(&self) -> MutexGuard<'_, Option<Reports>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns when events from now on reach the present listeners.
    pub(super) async fn begin(&self, report: impl FnOnce(watch::Sender<bool>) -> JoinHandle<()>) {
        let mut tried = {
            let mut reports = self.reports();
            let begin = || {
                let (tell, tried) = watch::channel(false);
                Reports { task: report(tell), tried }
            };
            reports.get_or_insert_with(begin).tried.clone()
        };
        // The task may end before that.
        let _ = tried.wait_for(|tried| *tried).await;
    }

    /// Ends the task: there are no more events.
    pub(super) fn end(&self) {
        if let Some(reports) = self.reports().take() {
            reports.task.abort();
        }
    }

    /// The bus for events, if there are subscribers. Without any the task ends, and the next subscriber starts it
    /// again.
    pub(super) fn room(&self, notices: &Notices) -> Option<EventBus> {
        let mut reports = self.reports();
        // Under the lock: whoever subscribes after this starts the next task.
        let room = notices.heard().cloned();
        if room.is_none() {
            *reports = None;
        }
        room
    }
}
