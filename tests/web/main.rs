//! The page for browsers: a real supervisor, a real Chromium.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says so by a panic")]

#[path = "../support/http.rs"]
mod http;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/sandbox.rs"]
mod sandbox;

mod acts;
mod away;
mod beside;
mod browser;
mod bulk;
mod charts;
mod config;
mod doctor;
mod edits;
mod follows;
mod gate;
mod lists;
mod looks;
mod numbers;
mod origins;
mod page;
mod processes;
mod proxied;
