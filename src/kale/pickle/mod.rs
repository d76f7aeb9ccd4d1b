//! Pickles, read without executing them and written as Python writes them.

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
