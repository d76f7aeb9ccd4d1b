//! Orders about many jobs: they go on while the reader looks at other pages.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An order that is being carried out, or was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    number: u64,
    /// What is done.
    pub what: String,
    /// With how many jobs it was done so far.
    pub done: u64,
    /// How it ended; none while it goes on.
    pub end: Option<Result<(), String>>,
}

/// The latest orders.
#[derive(Clone, Default)]
pub struct Works(Arc<Mutex<(u64, Vec<Work>)>>);

/// Limit of the orders that are kept.
const KEPT: usize = 20;

impl Works {
    fn inner(&self) -> MutexGuard<'_, (u64, Vec<Work>)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A new order; gives its number.
    pub fn begin(&self, what: String) -> u64 {
        let mut inner = self.inner();
        inner.0 += 1;
        let number = inner.0;
        inner.1.push(Work { number, what, done: 0, end: None });
        if inner.1.len() > KEPT
            && let Some(ended) = inner.1.iter().position(|work| work.end.is_some())
        {
            inner.1.remove(ended);
        }
        number
    }

    /// More of it is done; with `end` it is over.
    pub fn note(&self, number: u64, done: u64, end: Option<Result<(), String>>) {
        if let Some(work) = self.inner().1.iter_mut().find(|work| work.number == number) {
            work.done += done;
            work.end = end;
        }
    }

    /// Those that go on, or have failed.
    pub fn shown(&self) -> Vec<Work> {
        let is_shown = |work: &&Work| !matches!(work.end, Some(Ok(())));
        self.inner().1.iter().filter(is_shown).cloned().collect()
    }
}
