//! Tasks: notifications become jobs; lists, counts and removal by owner. Under our own paths, and under those of
//! QuantumLeap with its headers. Off unless the settings enable it.

mod answer;
mod asked;
mod list;
mod notify;
mod remove;

pub(super) use answer::routes;
