//! What a person may set, and what it means.

mod broker_url;
mod duration;
mod error;
mod file;
mod identity;
mod limits;
mod log;
mod outfit;
mod paths;
mod place;
mod pool;
mod program;
mod resolve;
mod size;
#[cfg(test)]
mod tests;
mod words;
mod wrong;

pub use broker_url::BrokerUrl;
pub use duration::{format_duration, parse_duration};
pub use error::{Error, Fault};
pub use file::File;
pub use limits::Limits;
pub use paths::{Surroundings, log_file, logs, private_dir, socket};
pub use pool::{Env, Mode, Named, Pool, Wear, Workers};
pub use resolve::{Config, Flags, Purpose, resolve};
pub use size::parse_size;
