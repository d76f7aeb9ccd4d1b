//! The contract of a broker with the rest of the program, and nothing of any kind of broker: a source of jobs
//! ([`Source`]), optional faces ([`Admin`], [`Browse`], [`Feed`], [`Peers`], [`Recovery`]), the card that lists what is
//! missing ([`Card`]), and how a kind is named and opened ([`Adapter`]). The kinds are crates in `src/brokers/`, each of
//! which builds on this one.
//!
//! It may use the model, and tokio for its locks and channels: no server, no file, no clock.

#![warn(unreachable_pub)]

mod adapter;
mod broker;
mod card;
mod complaints;
mod ends;
mod error;
mod event_bus;
mod faces;
mod failures;
mod routed;
mod search;
mod secret;
mod source;
mod typed;

pub use self::broker::Broker;
pub use adapter::{Adapter, Address, Counted, Opening, Place, Wrong, yes_or_no};
pub use card::Card;
pub use complaints::{Complaints, FORGOTTEN, LASTS, Told};
pub use error::Error;
pub use event_bus::{EventBus, Turn};
pub use faces::{Admin, Browse, Feed, JobEnd, Peers, Recovery};
pub use failures::failure_groups;
pub use routed::Route;
pub use secret::without_secrets;
pub use source::{Fetch, Health, Notice, Renewal, Settling, Source};
