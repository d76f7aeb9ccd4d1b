//! The messages to the store's thread.

use super::call::Call;

pub(super) enum Message {
    /// A request to apply and answer.
    Call(Box<dyn Call>),
    /// Another process may have changed the store, or what its files are called.
    Bell,
    /// The disk failed: nothing is durable until further notice.
    Broken(String),
    /// The thread is to end.
    Stop,
}
