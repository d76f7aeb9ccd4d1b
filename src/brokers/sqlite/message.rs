//! The messages to the store's thread.

use super::call::Call;

pub(super) enum Message {
    /// A request to apply and answer.
    Call(Box<dyn Call>),
    /// Another process may have changed the store, or moved or removed its files.
    Bell,
    /// The disk failed: nothing is durable for now.
    Broken(String),
    /// The thread is to end.
    Stop,
}
