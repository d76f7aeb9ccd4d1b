//! Why a line is no frame of the protocol.

use std::fmt;

/// A line that is not a frame.
#[derive(Debug)]
pub enum BadLine {
    /// A frame that this protocol does not have.
    Unknown(String),
    /// A frame that breaks the protocol.
    Torn {
        /// Where and why.
        why: serde_json::Error,
        /// The beginning of the line.
        line: String,
    },
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            BadLine::Unknown(name) => write!(f, "unknown frame '{name}'"),
            BadLine::Torn { why, line } => write!(f, "a line that is no frame ({why}): {line}"),
        }
    }
}

impl std::error::Error for BadLine {}
