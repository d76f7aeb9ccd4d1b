//! Frames: bytes in, values out. No I/O here.

#![warn(unreachable_pub)]

mod ask;
pub mod fault;
mod fields;
pub mod keeper;
pub mod notify;
pub mod program;
/// The lines of the worker protocol, shared with workers in Rust.
pub use taskvisor_worker::protocol as worker;
