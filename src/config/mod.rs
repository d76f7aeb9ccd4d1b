//! What a person may set, and what it means.

mod api;
mod check;
mod class_names;
mod error;
mod facts;
mod file;
mod identity;
mod limits;
mod log;
mod need;
mod origin;
mod outfit;
mod paths;
mod place;
mod pool;
mod program;
mod resolve;
mod route;
mod secret;
mod show;
mod size;
#[cfg(test)]
mod tests;
mod text;
mod values;
mod words;
mod wrong;

pub use crate::model::{format_duration, parse_duration};
pub use api::{Api, ApiSection, Remote, Token};
pub use check::{Finding, check};
pub use error::{Error, Fault};
pub use facts::{Disk, Facts, PoolFacts, Rights};
pub use file::{File, suggestion};
pub use identity::SocketGroup;
pub use limits::Limits;
pub use need::{DESCRIPTORS, descriptors};
pub use origin::{Origin, Origins};
pub use paths::{Surroundings, log_file, logs, private_dir, socket};
pub use place::Source;
pub use pool::{Env, Mode, Named, Pool, Wear, Workers};
pub use resolve::{Config, Flags, Purpose, resolve};
pub use route::{RouteSection, RouteTo};
pub use show::{Shown, show};
pub use size::parse_size;
pub use text::{limited, read_text};
