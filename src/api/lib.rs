//! The API: HTTP over the unix socket, and over TCP behind a [`Gate`]. The engine implements its [`Service`].

#![warn(unreachable_pub)]

mod answer_line;
mod body;
mod by;
mod client;
mod client_error;
mod connect;
mod connections;
mod describe;
mod events;
mod extract;
mod gate;
mod gathered;
mod health;
mod job_metrics;
mod limits;
mod lines;
mod lists;
mod logs;
mod metrics;
mod metrics_page;
mod openapi;
mod patience;
mod peer;
mod place;
mod pools;
mod probe;
mod queue_metrics;
mod role;
mod router;
mod routes;
mod server;
mod service;
mod stream;
mod tasks;
mod trouble;
mod verbs;
mod waits;

#[cfg(test)]
mod fake;
#[cfg(test)]
mod role_tests;
#[cfg(test)]
mod stream_tests;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod waits_tests;

pub use client::{Client, Order};
pub use client_error::Error;
pub use connect::trusts;
pub use connections::Activity;
pub use gate::{Gate, Terms};
pub use limits::Limits;
pub use lines::Lines;
pub use peer::{Members, Peer, Port, SharedSocket};
pub use place::Place;
pub use role::Role;
pub use router::{behind, openapi, router, tasks_router};
pub use server::serve;
pub use service::{Changed, Here, JobOutput, PauseOrder, Problem, Queued, Reloaded, Service};
