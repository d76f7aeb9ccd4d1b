//! The kinds of brokers. Settings, command line, `check` and `doctor` use this list and name no kind.

mod address;
mod secret;

pub(crate) use address::yes_or_no;
pub use address::{Adapter, Address, Counted, Opening, Place, Wrong};
pub use secret::without_secrets;

#[cfg(feature = "sqs")]
use super::sqs;
use super::{qless, reliable, rq, sqlite};

/// All kinds, in the order of the documentation.
pub const ADAPTERS: &[&dyn Adapter] = &[
    &sqlite::InFile,
    &sqlite::InMemory,
    &qless::QlessOnRedis,
    &rq::RqOnRedis,
    #[cfg(feature = "sqs")]
    &sqs::AmazonSqs,
    &reliable::ReliableQueue,
];
