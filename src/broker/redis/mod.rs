//! The way to a Redis or Valkey, for every broker that keeps its jobs in one: its URL, TLS, the connection, the server's clock,
//! and what a refusal means. It knows no key and no job.

mod address;
mod certificates;
mod identity;
mod link;
mod offset;
mod query;
mod server;
mod trouble;

pub(super) use identity::{fault, identity};
pub(super) use link::{Link, Needs, backoff};
pub(super) use offset::Offset;
