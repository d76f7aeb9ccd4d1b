//! From the text of a message to its pickle, and back.

use std::io::Read;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::read::{ZlibDecoder, ZlibEncoder};

use super::cipher::Key;

/// The largest pickle, in bytes. A body of 1 MiB, the most that SQS carries, could inflate to a gigabyte.
pub const INFLATED_MAX: usize = 16 << 20;

/// How pickles are compressed: kale's COMPRESSOR and DECOMPRESSOR.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Compression {
    /// Compressed by zlib, kale's default.
    #[default]
    Zlib,
    /// Not at all.
    None,
}

/// Reads and writes the text of bodies.
#[derive(Clone, Debug)]
pub struct Codec {
    key: Key,
    compression: Compression,
}

/// Why a text is not a body of kale.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CodecError {
    /// It is not base64.
    #[error("it is not base64 ({0})")]
    Base64(String),
    /// After decryption there is no valid padding.
    #[error("it cannot be decrypted: it was encrypted with another key, or it is cut off")]
    Decrypt,
    /// The decrypted bytes are not zlib.
    #[error("it does not inflate ({0}): it was encrypted with another key, or its COMPRESSOR is not zlib")]
    Inflate(String),
    /// More than [`INFLATED_MAX`].
    #[error("it inflates to more than {INFLATED_MAX} bytes")]
    TooLarge,
}

impl Codec {
    /// A codec with this key.
    pub fn new(key: Key, compression: Compression) -> Codec {
        Codec { key, compression }
    }

    /// The pickle in a body.
    pub fn open(&self, body: &str) -> Result<Vec<u8>, CodecError> {
        self.open_within(body, INFLATED_MAX)
    }

    /// The pickle in a body; None above this number of bytes.
    pub fn open_within(&self, body: &str, most: usize) -> Result<Vec<u8>, CodecError> {
        let sealed = STANDARD.decode(body.trim()).map_err(|error| CodecError::Base64(error.to_string()))?;
        let packed = self.key.decrypt(sealed).ok_or(CodecError::Decrypt)?;
        let pickle = match self.compression {
            Compression::Zlib => inflate(&packed, most)?,
            Compression::None => packed,
        };
        if pickle.len() > most { Err(CodecError::TooLarge) } else { Ok(pickle) }
    }

    /// The body for a pickle.
    pub fn seal(&self, pickle: &[u8]) -> String {
        let packed = match self.compression {
            Compression::Zlib => deflate(pickle),
            Compression::None => pickle.to_vec(),
        };
        STANDARD.encode(self.key.encrypt(packed))
    }
}

fn inflate(packed: &[u8], most: usize) -> Result<Vec<u8>, CodecError> {
    let mut pickle = Vec::new();
    ZlibDecoder::new(packed)
        // One byte above the limit shows that there is more.
        .take(most as u64 + 1)
        .read_to_end(&mut pickle)
        .map_err(|error| CodecError::Inflate(error.to_string()))?;
    Ok(pickle)
}

fn deflate(pickle: &[u8]) -> Vec<u8> {
    let mut packed = Vec::new();
    // Reading from memory into memory cannot fail.
    let _ = ZlibEncoder::new(pickle, flate2::Compression::default()).read_to_end(&mut packed);
    packed
}
