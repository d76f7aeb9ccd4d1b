//! The command line: its commands, and what they print.

mod access;
mod args;
mod batch;
mod check;
mod config;
mod control;
mod dispatch;
mod doctor;
mod events;
mod failed;
mod job;
mod kale;
mod option;
mod put;
mod queue;
mod record;
mod recur;
mod redis;
mod reference;
mod release;
mod rq;
mod settings;
mod simulate;
mod statsd;
mod status;
mod term;
mod top;
mod trial;
mod unserved;
mod values;
mod web;
mod why;
mod wq;

pub use dispatch::{main, supervisor};
