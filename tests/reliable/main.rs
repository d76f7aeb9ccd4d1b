//! The queue of the reliable-worker-queue tutorial, shared with programs written after it: supervisors on a real Redis.
#![allow(clippy::unwrap_used)]

#[path = "../support/certificates.rs"]
mod certificates;
#[path = "../support/http.rs"]
mod http;
#[path = "../support/proxy.rs"]
mod proxy;
#[path = "../support/python.rs"]
mod python;
#[path = "../support/sandbox.rs"]
mod sandbox;
#[path = "../support/sentinel.rs"]
mod sentinel;
#[path = "../support/redis.rs"]
mod support;

mod beside_clients;
mod canceled;
mod days;
mod jobs;
mod reached;
mod scene;
