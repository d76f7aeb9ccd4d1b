//! Reads pickles without executing them, and writes them as Python does.

mod arena;
mod objects;
mod opcodes;
mod reader;
mod text;
mod value;
mod writer;

pub use reader::{Limits, PickleError, read};
pub use value::Value;
pub use writer::write;

#[cfg(test)]
mod tests;
