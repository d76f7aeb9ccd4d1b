//! What a person types and reads.

mod access;
mod args;
mod branch;
mod change_args;
mod check;
mod config;
mod data;
mod exit;
mod failure;
mod follow;
mod form;
mod job;
mod job_args;
mod json;
mod launch;
mod page;
mod put;
mod queue;
mod reload;
mod screen;
mod serve;
mod slot;
pub mod start;
mod start_args;
mod status;
mod stop;
mod tree;
mod typed;

pub use exit::{main, supervisor};
