//! Tasks: notifications become jobs; lists, counts and removal by owner. Under our own paths, and under those of
//! QuantumLeap with its headers. Off unless the settings enable it.

mod answer;
mod as_there;
mod asked;
mod list;
mod notify;
mod remove;

use super::describe::Describe;
use super::routes::Routes;

pub(super) use as_there::{alone, refused};

/// All routes for tasks.
pub(super) fn routes<D: Describe>(routes: Routes<D>) -> Routes<D> {
    as_there::as_quantumleap(answer::own(routes))
}
