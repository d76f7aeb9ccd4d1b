//! Jobs in a Redis or Valkey that several hosts share, in the keys of qless: other programs that use qless see our
//! jobs, and we see theirs. One script makes all changes to jobs (see `script/`), so each request is atomic.

#![warn(unreachable_pub)]

mod adapter;
mod ask;
mod awaited;
mod broker;
mod classes;
mod edits;
mod ends;
mod event_parser;
mod event_stream;
mod failures;
mod fetch;
mod fleet;
mod holds;
mod indices;
mod life;
mod listener;
mod lists;
mod looks;
mod occur;
mod options;
mod others;
mod put;
mod qless_history;
mod queues;
mod recur;
mod recurs;
mod reply;
mod reporter;
pub mod script;
mod settle;
mod shared;
mod verbs;
mod wake_debounce;

pub use self::broker::{Options, Qless};
pub use adapter::QlessOnRedis;
