//! The formats of kale (Nextdoor's task worker on Amazon SQS): its message bodies, its pickled envelope, its file of queues.
//! Pure: bytes in, values out.
//!
//! A body is `base64(AES-ECB(pad(zlib(pickle(dict)))))`. Anyone who can write to such a queue can run code in a Python
//! worker, because Python's unpickler executes what a pickle says. Nothing here executes a pickle: [`pickle::read`]
//! understands a small set of opcodes, names objects without making them, and refuses everything else.

#![warn(unreachable_pub)]

mod body;
mod cipher;
mod codec;
mod first;
mod import;
mod message;
pub mod pickle;
mod queue_error;
mod queue_lines;
mod queue_name;
mod queues;
mod repr;
mod settings;

pub use body::{Body, BodyError, Reading};
pub use cipher::{DEFAULT_KEY, Key, KeyError};
pub use codec::{Codec, CodecError, Compression, INFLATED_MAX};
pub use first::Sender;
pub use import::{Application, ImportError, Imported, Names};
pub use message::{EnvelopeError, Message};
pub use queue_error::{Place, QueuesError};
pub use queue_name::{NameError, QueueNames};
pub use queues::{Queue, read_queues};
pub use settings::endpoint;

#[cfg(test)]
mod import_tests;
#[cfg(test)]
mod queues_tests;
#[cfg(test)]
mod tests;
