//! What several kinds of brokers share: the form in which values are stored, recurring jobs, cancels and circles of many
//! jobs, notices that wait, replies that were lost. Nothing here knows a kind.
//!
//! It may use the contract (`broker`) and the model. The rest of the program sees none of it.

#![warn(unreachable_pub)]

pub mod cancel;
pub mod circle;
mod damper;
mod host;
mod job_object;
mod lock;
mod lost_replies;
mod notices;
pub mod options;
mod owed;
pub mod recurring;
pub mod stored;
mod zones;

pub use damper::Damper;
pub use host::host_name;
pub use job_object::JobObject;
pub use lock::lock;
pub use lost_replies::{InDoubt, Unheard};
pub use notices::Notices;
pub use owed::Owed;
