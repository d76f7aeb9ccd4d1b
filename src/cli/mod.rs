//! What a person types and reads.

mod access;
mod args;
mod because;
mod branch;
mod change_args;
mod check;
mod config;
mod data;
mod doctor;
mod exit;
mod failure;
mod follow;
mod form;
mod in_force;
mod job;
mod job_args;
mod json;
mod launch;
mod listing;
mod page;
mod processes;
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
mod timeline;
mod tree;
mod typed;
mod why;

pub use exit::{main, supervisor};
