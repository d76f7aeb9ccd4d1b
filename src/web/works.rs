//! Orders about many jobs: they go on while the reader looks at other pages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// An order that is being carried out, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Work {
    number: u64,
    /// What is done.
    pub what: String,
    /// Number of jobs that are done so far.
    pub done: u64,
    /// How it ended; none while it goes on.
    pub end: Option<Result<(), String>>,
    /// When something was noted of it last.
    at: Instant,
}

/// The latest orders.
#[derive(Clone, Default)]
pub(crate) struct Works(Arc<Mutex<(u64, Vec<Work>)>>);

/// Limit of the orders that are kept.
const KEPT: usize = 20;
/// How long an order that has failed stays on the pages.
const SHOWN: Duration = Duration::from_secs(600);

impl Works {
    fn inner(&self) -> MutexGuard<'_, (u64, Vec<Work>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new order; gives its number.
    pub(crate) fn begin(&self, what: String) -> u64 {
        let mut inner = self.inner();
        inner.0 += 1;
        let number = inner.0;
        inner.1.push(Work { number, what, done: 0, end: None, at: Instant::now() });
        if inner.1.len() > KEPT
            // One under way stays, even where there are more than the limit.
            && let Some(ended) = inner.1.iter().position(|work| work.end.is_some())
        {
            inner.1.remove(ended);
        }
        number
    }

    /// More of it is done; with `end` it is over.
    pub(crate) fn note(&self, number: u64, done: u64, end: Option<Result<(), String>>) {
        if let Some(work) = self.inner().1.iter_mut().find(|work| work.number == number) {
            work.done += done;
            (work.end, work.at) = (end, Instant::now());
        }
    }

    /// Those that go on, or have failed in the last ten minutes.
    pub(crate) fn shown(&self) -> Vec<Work> {
        let is_shown = |work: &&Work| match work.end {
            None => true,
            Some(Ok(())) => false,
            Some(Err(_)) => work.at.elapsed() < SHOWN,
        };
        self.inner().1.iter().filter(is_shown).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn failed_order_is_shown_for_ten_minutes_and_one_under_way_until_its_end() {
        let works = Works::default();
        let [failed, _going] = ["one", "two"].map(|what| works.begin(what.into()));
        works.note(failed, 3, Some(Err("gone".into())));
        let shown = || works.shown().into_iter().map(|work| work.what).collect::<Vec<_>>();
        assert_eq!(shown(), ["one", "two"]);
        tokio::time::advance(SHOWN).await;
        assert_eq!(shown(), ["two"]);
    }
}
