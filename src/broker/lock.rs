//! Locks that a panic elsewhere does not close for good: what they guard is whole at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The guarded value, also after a thread has panicked with it.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
