//! Tasks: notifications come in and become jobs; lists, counts and removal by whose they are. Under our own paths, and under
//! those of QuantumLeap with its headers. Off unless the settings have it.

mod answer;
mod asked;
mod list;
mod notify;
mod remove;

pub(super) use answer::routes;
