//! Data of jobs that is not JSON.

use serde::{Deserialize, Serialize};

/// Data that is not JSON: as text, or in base64 if that is shorter.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Raw {
    /// Data that is UTF-8.
    Text(String),
    /// Data of any bytes.
    Base64 {
        /// The bytes in base64.
        b64: String,
    },
}
