//! Where jobs wait: one contract, several brokers.

mod cancel;
mod circle;
mod complaints;
mod contract;
mod error;
mod event_bus;
mod failures;
mod notices;
mod options;
mod recurring;
pub mod redis;
pub mod sqlite;
mod stored;
mod verbs;
mod zones;

pub use complaints::Complaints;
pub use contract::{Broker, Capabilities, Fetch, Notice, Renewal, Settling};
pub use error::Error;
pub use event_bus::EventBus;
pub use redis::Redis;
pub use sqlite::Sqlite;
pub use verbs::Verbs;
