//! Pickles, read without executing them and written as Python writes them.

mod arena;
mod objects;
mod opcodes;
mod reader;
mod splice;
mod text;
mod value;
mod writer;

pub use reader::{Limits, Pickle, PickleError, read};
pub use splice::{Field, Scalar, SpliceError};
pub use value::Value;
pub use writer::write;

#[cfg(test)]
mod tests;
