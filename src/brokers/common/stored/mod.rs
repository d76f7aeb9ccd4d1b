//! How values of the model are stored: the JSON in columns of SQLite and in fields of Redis. It is separate from the
//! public JSON and from the names of fields in Rust, so that these can change independently. Samples in `tests.rs` pin
//! it byte for byte.
//!
//! Each row describes a type of the model for serde; the compiler asks for a row's field when the type gets one.

mod ends;
mod form;
mod history;
mod jobs;
#[cfg(test)]
mod tests;

pub use form::{Stored, from_json, to_json};
pub use history::entries;
