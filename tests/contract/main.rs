//! The contract of brokers: each case runs over every broker.
#![allow(clippy::unwrap_used, clippy::wildcard_enum_match_arm, clippy::too_many_lines)]

#[macro_use]
#[path = "../support/contract/mod.rs"]
mod contract;
#[path = "../support/sqs/mod.rs"]
mod sqs;
#[path = "../support/store.rs"]
mod support;

mod afterwards;
mod attempts;
mod dependencies;
mod edits;
mod events;
mod expires;
mod history;
mod leases;
mod lists;
mod options;
mod order;
mod puts;
mod random;
mod recurring;
mod stages;
