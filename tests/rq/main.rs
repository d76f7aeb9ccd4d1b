//! Jobs of the real RQ, put by its client into a real redis-server, run by a taskvisor and its workers of Python.
#![allow(clippy::unwrap_used)]

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/redis.rs"]
mod redis_server;
#[path = "../support/sandbox.rs"]
mod sandbox;
#[path = "../support/sentinel.rs"]
mod sentinel;

mod addresses;
mod callbacks;
mod ends;
mod faces;
mod failover;
mod lost;
mod native;
mod odd;
mod own_tests;
mod preload;
mod scene;
mod schedulers;
mod spoiled;
mod waits;
