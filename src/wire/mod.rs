//! Frames: bytes in, values out. No I/O here.

mod fields;
pub mod keeper;
pub mod program;
pub mod worker;
