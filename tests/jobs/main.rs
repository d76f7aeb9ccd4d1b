//! Jobs with the real binary: by a supervisor, and straight in the store.
#![allow(missing_docs, clippy::unwrap_used, clippy::too_many_lines)]

#[path = "../support/python.rs"]
mod python;
#[path = "../support/sandbox.rs"]
mod sandbox;

mod afterwards;
mod batches;
mod between;
mod dependencies;
mod deploys;
mod events;
mod found;
mod large;
mod lists;
mod logs;
mod options;
mod recurring;
mod results;
mod shared_store;
mod unprinted;
mod unserved;
mod waiters;
