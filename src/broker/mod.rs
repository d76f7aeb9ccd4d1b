//! Where jobs wait: one contract, several brokers.

mod contract;
mod error;
mod newsroom;
pub mod redis;
pub mod sqlite;
mod verbs;

pub use contract::{Broker, Capabilities, Fetch, Notice, Renewal, Settling};
pub use error::Error;
pub use newsroom::Newsroom;
pub use sqlite::Sqlite;
pub use verbs::Verbs;
