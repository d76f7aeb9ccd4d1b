//! The one API: HTTP over the unix socket. What it can do is the [`Service`]; the engine provides it.

mod body;
mod client;
mod guests;
mod health;
mod metrics;
mod patience;
mod router;
mod server;
mod service;

#[cfg(test)]
mod tests;

pub use client::{Client, Error};
pub use router::router;
pub use server::{Limits, Peer, serve};
pub use service::{Problem, Service};
