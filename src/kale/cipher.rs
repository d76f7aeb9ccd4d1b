//! AES in ECB mode with ANSI X9.23 padding, as kale encrypts.

use std::fmt;

use aes::cipher::{Array, BlockCipherDecrypt, BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes192, Aes256, Block};

/// Size of a block, in bytes.
const BLOCK: usize = 16;

/// The key that kale uses if its settings name none. It is public, so it protects nothing.
pub const DEFAULT_KEY: &str = "1234567890123456";

/// Why a text is not a valid key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// AES has three key lengths.
    #[error("UTIL_CRYPT_CIPHER has {0} bytes: a key of kale has 16, 24 or 32")]
    Length(usize),
    /// This key is well known.
    #[error(
        "UTIL_CRYPT_CIPHER is kale's own default, which everybody knows: with it, whoever can write to a queue can run \
         code in its Python workers. Set a key of your own, or allow the default by name"
    )]
    Default,
}

/// A key for message bodies: 16, 24 or 32 bytes, for AES-128, AES-192 or AES-256.
#[derive(Clone)]
pub struct Key(Schedule);

#[derive(Clone)]
enum Schedule {
    Aes128(Aes128),
    Aes192(Aes192),
    Aes256(Aes256),
}

impl Key {
    /// The key with the bytes of this text. `allow_default` accepts [`DEFAULT_KEY`], which is refused otherwise.
    pub fn new(text: &str, allow_default: bool) -> Result<Key, KeyError> {
        if text == DEFAULT_KEY && !allow_default {
            return Err(KeyError::Default);
        }
        let bytes = text.as_bytes();
        let wrong = |_| KeyError::Length(bytes.len());
        Ok(Key(match bytes.len() {
            24 => Schedule::Aes192(Aes192::new_from_slice(bytes).map_err(wrong)?),
            32 => Schedule::Aes256(Aes256::new_from_slice(bytes).map_err(wrong)?),
            // Any length but 16 fails here, and the error names it.
            _ => Schedule::Aes128(Aes128::new_from_slice(bytes).map_err(wrong)?),
        }))
    }

    /// Pads and encrypts.
    pub(super) fn encrypt(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        // A whole block where the length fits already: whoever decrypts always removes some.
        let padding = BLOCK - bytes.len() % BLOCK;
        bytes.resize(bytes.len() + padding - 1, 0);
        bytes.push(u8::try_from(padding).unwrap_or(0));
        // Block by block, each for itself: kale uses ECB.
        for chunk in bytes.chunks_exact_mut(BLOCK) {
            let mut block = block(chunk);
            match &self.0 {
                Schedule::Aes128(key) => key.encrypt_block(&mut block),
                Schedule::Aes192(key) => key.encrypt_block(&mut block),
                Schedule::Aes256(key) => key.encrypt_block(&mut block),
            }
            chunk.copy_from_slice(&block);
        }
        bytes
    }

    /// Decrypts and removes the padding. `None` if the padding shows that these bytes were not encrypted with this key.
    /// ECB proves nothing, so later steps must check too.
    pub(super) fn decrypt(&self, mut bytes: Vec<u8>) -> Option<Vec<u8>> {
        if bytes.is_empty() || !bytes.len().is_multiple_of(BLOCK) {
            return None;
        }
        for chunk in bytes.chunks_exact_mut(BLOCK) {
            let mut block = block(chunk);
            match &self.0 {
                Schedule::Aes128(key) => key.decrypt_block(&mut block),
                Schedule::Aes192(key) => key.decrypt_block(&mut block),
                Schedule::Aes256(key) => key.decrypt_block(&mut block),
            }
            chunk.copy_from_slice(&block);
        }
        // X9.23 has its length in the last byte; the bytes before it may be anything.
        let padding = usize::from(*bytes.last()?);
        (1..=BLOCK).contains(&padding).then(|| bytes.truncate(bytes.len() - padding))?;
        Some(bytes)
    }
}

fn block(chunk: &[u8]) -> Block {
    let mut block: Block = Array::default();
    block.copy_from_slice(chunk);
    block
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Schedule::Aes128(_) => "Key(AES-128)",
            Schedule::Aes192(_) => "Key(AES-192)",
            Schedule::Aes256(_) => "Key(AES-256)",
        })
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encrypts_as_kales_own_test_expects() {
        let key = Key::new(DEFAULT_KEY, true).unwrap();
        assert_eq!(STANDARD.encode(key.encrypt(b"12345".to_vec())), "hU6aBS2mJgr0DUrUiHQouA==");
    }

    #[test]
    fn the_default_key_is_refused_unless_it_is_allowed() {
        assert_eq!(Key::new(DEFAULT_KEY, false).unwrap_err(), KeyError::Default);
        assert!(Key::new(DEFAULT_KEY, true).is_ok());
    }

    #[test]
    fn a_key_has_one_of_three_lengths_and_is_never_printed() {
        for (length, name) in [(16, "Key(AES-128)"), (24, "Key(AES-192)"), (32, "Key(AES-256)")] {
            assert_eq!(format!("{:?}", Key::new(&"k".repeat(length), false).unwrap()), name);
        }
        for length in [0, 15, 17, 36, 64] {
            let error = Key::new(&"k".repeat(length), false).unwrap_err();
            assert_eq!(error, KeyError::Length(length));
        }
    }

    #[test]
    fn invalid_padding_is_refused() {
        let key = Key::new(DEFAULT_KEY, true).unwrap();
        for last in [0_u8, 17, 255] {
            let mut block = block(&[0; BLOCK]);
            block[BLOCK - 1] = last;
            let Schedule::Aes128(cipher) = &key.0 else { panic!("16 bytes are AES-128") };
            cipher.encrypt_block(&mut block);
            assert_eq!(key.decrypt(block.to_vec()), None, "{last}");
        }
        assert_eq!(key.decrypt(Vec::new()), None);
        assert_eq!(key.decrypt(vec![0; 15]), None);
    }

    proptest! {
        #[test]
        fn encryption_round_trips(
            bytes in proptest::collection::vec(any::<u8>(), 0..100),
            length in prop::sample::select(vec![16_usize, 24, 32]),
        ) {
            let key = Key::new(&"k".repeat(length), false).unwrap();
            let sealed = key.encrypt(bytes.clone());
            prop_assert_eq!(sealed.len() % BLOCK, 0);
            prop_assert_eq!(key.decrypt(sealed), Some(bytes));
        }
    }
}
