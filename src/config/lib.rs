//! The settings: what people can set, and its meaning.

mod api;
mod check;
mod class_names;
mod duration;
mod error;
mod facts;
mod file;
mod flags;
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
mod purpose;
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
mod wq;
mod wrong;

pub use crate::model::{format_duration, parse_duration};
pub use api::{Api, ApiSection, Remote};
pub use check::{Finding, check};
pub use error::{Error, Fault};
pub use facts::{Disk, Facts, PoolFacts, Rights, memory};
pub use file::{File, suggestion};
pub use flags::Flags;
pub use identity::SocketGroup;
pub use limits::Limits;
pub use need::{DESCRIPTORS, descriptors};
pub use origin::{Origin, Origins};
pub use paths::{Surroundings, log_file, logs, must_be_two, private_dir, socket};
pub use place::Source;
pub use pool::{Env, Mode, Named, Pool, Wear, Workers};
pub use purpose::Purpose;
pub use resolve::{Config, resolve};
pub use route::RouteTo;
pub use show::{Shown, show};
pub use text::{limited, read_text};
pub use wq::WqSection;

// The rooms that this one uses, by the names that its files know.
use crate as config;
#[allow(clippy::single_component_path_imports, reason = "its files say crate::model")]
use {broker, model, start_dir};
