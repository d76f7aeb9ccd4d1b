//! A live screen for ssh: what it knows (`state`), what a key does (`keys`), what is drawn (`view`), and the terminal
//! (`screen`). All but `screen` and `run` is pure. What is known comes from outside, as [`ask::News`] that answer a
//! [`ask::Request`].

#![warn(unreachable_pub)]

pub mod actions;
pub mod ask;
#[allow(clippy::wildcard_enum_match_arm, reason = "a key or a thing without a meaning there does nothing")]
pub mod keys;
pub mod layout;
pub mod order;
mod run;
pub mod screen;
pub mod state;
pub mod thing;
pub mod view;

pub use run::run;
