//! Locks that stay usable after a panic: the value they guard is consistent at any time.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Locks the value, even if a thread has panicked with it.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
