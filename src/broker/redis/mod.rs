//! The connection to a Redis or Valkey, for every broker that uses one: URL, TLS, connection, the server's clock, and
//! the meaning of errors. It knows no keys and no jobs.

mod address;
mod arrivals;
mod backoff;
mod certificates;
mod eviction;
mod identity;
mod link;
mod offset;
mod query;
mod script;
mod server;
mod silence;
mod trouble;
pub(super) mod values;

pub(super) use arrivals::Arrivals;
pub(super) use backoff::backoff;
pub(super) use identity::{fault, identity};
pub(super) use link::{Link, Needs};
pub(super) use offset::Offset;
pub(super) use query::split_off;
#[cfg(test)]
pub(super) use script::assert_whole;
pub(super) use script::script;
