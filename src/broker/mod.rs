//! Where jobs wait: one contract, several brokers.

mod contract;
mod error;

pub use contract::{Broker, Capabilities, Fetch, Notice, Renewal, Settling};
pub use error::Error;
