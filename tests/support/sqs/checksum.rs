//! The checksums that SQS sends, in hexadecimal.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use md5::{Digest, Md5};
use serde_json::{Map, Value};

/// The checksum of a body.
pub fn of_body(body: &str) -> String {
    hex(Md5::digest(body))
}

/// The checksum of message attributes: name, type and value, each after its length, ordered by name.
pub fn of_attributes(attributes: &Map<String, Value>) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut digest = Md5::new();
    let mut counted = |bytes: &[u8], before: &[u8]| {
        digest.update(before);
        digest.update(u32::try_from(bytes.len()).expect("a short value").to_be_bytes());
        digest.update(bytes);
    };
    let mut names: Vec<_> = attributes.iter().collect();
    names.sort_by_key(|(name, _)| name.as_bytes());
    for (name, attribute) in names {
        counted(name.as_bytes(), b"");
        counted(attribute["DataType"].as_str().unwrap_or_default().as_bytes(), b"");
        match attribute["BinaryValue"].as_str() {
            Some(binary) => counted(&STANDARD.decode(binary).unwrap_or_default(), &[2]),
            None => counted(attribute["StringValue"].as_str().unwrap_or_default().as_bytes(), &[1]),
        }
    }
    Some(hex(digest.finalize()))
}

/// The deduplication id of a queue with content-based deduplication.
pub fn of_content(body: &str) -> String {
    of_body(body)
}

fn hex(bytes: impl AsRef<[u8]>) -> String {
    bytes.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}
