//! The layout of the reliable-worker-queue tutorial: a hash of values, a list of waiting ids, a sorted set of those in
//! work, a hash of results. Programs written after the tutorial share their queue with taskvisor, which makes it
//! reliable: each step is one script, a job has one owner, and additional keys are separate from the tutorial's (see
//! `script/`). The ledger has the history.
//!
//! No message announces a new job: [`Arrivals`](redis_link::Arrivals) notices it. An idle supervisor looks for
//! due jobs once a second.

#![warn(unreachable_pub)]

mod adapter;
mod settings;
mod shared;
mod source;
mod value;

pub use adapter::ReliableQueue;
