//! Frames: bytes in, values out. No I/O here.

pub mod keeper;
pub mod program;
pub mod worker;
