//! The contract of a broker with the rest of the program: a source of jobs, optional faces, and the card that lists
//! them. It knows no particular broker.

mod broker;
mod card;
mod ends;
mod error;
mod faces;
mod source;
mod typed;

pub use broker::Broker;
pub use card::Card;
pub use error::Error;
pub use faces::{Admin, Browse, Feed, JobEnd, Peers, Recovery};
pub use source::{Fetch, Health, Notice, Renewal, Settling, Source};
