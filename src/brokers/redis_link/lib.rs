//! The connection to a Redis or Valkey, for every broker that uses one: URL, TLS, connection, the server's clock, and
//! the meaning of errors. It knows no keys and no jobs.

#![warn(unreachable_pub)]

mod address;
mod arrivals;
mod backoff;
mod certificates;
mod dial;
mod eviction;
mod identity;
mod link;
mod memory;
mod offset;
mod query;
mod script;
mod server;
mod silence;
mod trouble;
pub mod values;

pub use arrivals::Arrivals;
pub use backoff::Waits;
pub use identity::{fault, identity};
pub use link::{Link, Needs};
pub use offset::Offset;
pub use query::split_off;
pub use script::assert_whole;
