//! Amazon SQS. The order of queues decides which one is received from next; at those that are empty a long poll waits,
//! and only while a worker waits for a job. Messages beyond the ready workers wait in a buffer for a moment. Deletes,
//! visibility changes and sends go ten at a time. SQS keeps no history: the ledger in the state directory does.
//!
//! It never asks the service for counts to choose a queue. It never ends a poll before its answer while it serves: a
//! message that SQS has already given to the poll would stay invisible until its time is over.

#![warn(unreachable_pub)]

mod adapter;
mod address;
mod body;
mod buffer;
mod buried;
mod client;
mod coalesce;
mod connect;
mod credentials;
mod early;
mod faces;
mod fault;
mod held;
mod open_note;
mod poll;
mod queue;
mod redrive;
mod regain;
mod retry;
mod settle;
mod shared;
mod silence;
mod source;
mod source_queue;
mod titles;

pub use adapter::AmazonSqs;
