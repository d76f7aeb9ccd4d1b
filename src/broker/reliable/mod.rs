//! The layout of the reliable-worker-queue tutorial: a hash of values, a list that waits, a sorted set that is being worked on,
//! a hash of results. Programs written after it share their queue with taskvisor, which makes it reliable: each step is one
//! script, a job has one owner, and the keys that this takes are apart from theirs (see `script.lua`). The ledger has the
//! history.
//!
//! Nobody tells that a job was put. While a worker waits, one connection blocks in a BLMOVE of the list to itself, which moves
//! nothing: a job begins at once, and a supervisor at rest asks Redis 80 times a minute, for that and for what is due.

mod adapter;
mod faces;
mod settings;
mod shared;
mod source;
mod value;

pub use adapter::ReliableQueue;
