//! The page for browsers beside this supervisor, as `status` shows it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use model::PageStatus;

/// What is known of the page. All copies are one.
#[derive(Clone, Debug, Default)]
pub struct PageSeen(Arc<Mutex<PageStatus>>);

impl PageSeen {
    /// What is known, to be read or changed.
    pub fn now(&self) -> MutexGuard<'_, PageStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
