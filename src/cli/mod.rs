//! What a person types and reads.

mod access;
mod args;
mod check;
mod config;
mod control;
mod doctor;
mod events;
mod exit;
mod failed;
mod failure;
mod in_force;
mod job;
mod launch;
mod option;
mod put;
mod queue;
mod recur;
mod redis;
mod reference;
mod serve;
pub mod start;
mod status;
mod term;
mod why;

pub use exit::{main, supervisor};
