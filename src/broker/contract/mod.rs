//! What a broker is to the rest of the program: one source of jobs, what else it may be able to do, and the card that says
//! which of it there is. It never knows how any one broker does it.

mod broker;
mod card;
mod error;
mod faces;
mod source;

pub use broker::Broker;
pub use card::Card;
pub use error::Error;
pub use faces::{Admin, Browse, Feed, Peers, Recovery};
pub use source::{Fetch, Health, Notice, Renewal, Settling, Source};
