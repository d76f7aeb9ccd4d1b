//! Brokers: one contract, several kinds.

mod cancel;
mod circle;
mod complaints;
mod contract;
mod damper;
mod event_bus;
mod failures;
mod host;
mod job_object;
mod ledger;
mod lock;
mod lost_replies;
mod notices;
mod options;
mod outbox;
mod owed;
pub mod qless;
mod recurring;
mod redis;
mod registry;
mod reliable;
mod routed;
mod rq;
pub mod sqlite;
#[cfg(feature = "sqs")]
mod sqs;
mod stored;
mod zones;

pub use complaints::{Complaints, LASTS, Told};
pub use contract::{
    Admin, Broker, Browse, Card, Error, Feed, Fetch, Health, JobEnd, Notice, Peers, Recovery, Renewal,
    Settling, Source,
};
pub use event_bus::EventBus;
pub use ledger::{Adopted, BareSource, Delivery, Elsewhere, Handle, Ledger, WaitingJobs, with_ledger};
pub use outbox::Outbox;
pub use qless::Qless;
pub use registry::{ADAPTERS, Adapter, Address, Counted, Opening, Place, Wrong};
pub use routed::Route;
pub use sqlite::Sqlite;
#[cfg(feature = "sqs")]
pub use sqs::AmazonSqs;
