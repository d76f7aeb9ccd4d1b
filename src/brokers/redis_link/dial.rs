//! Opens connections, each in its time, and with the server's own words if it refuses.

use std::pin::Pin;
use std::time::Duration;

use redis::{Client, ErrorKind, RedisError, RedisResult};
use tokio::time::timeout;

use super::address::Address;
use super::trouble::refusal;

/// A server that accepts no connection within this time is away.
pub(super) const CONNECT: Duration = Duration::from_secs(3);

/// Opens a connection of any kind. What the server says of our user and password is the same for each.
pub(super) async fn dialed<T: Send, F: Future<Output = RedisResult<T>> + Send>(
    address: &Address,
    dial: impl FnOnce(Client) -> F + Send,
) -> RedisResult<T> {
    // Boxed: the futures would nest too deep.
    let opened: Pin<Box<dyn Future<Output = RedisResult<T>> + Send + '_>> = Box::pin(async {
        let client = address.client().await?;
        match dial(client.clone()).await {
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => {
                Err(refusal(&client).await.unwrap_or(error))
            }
            opened => opened,
        }
    });
    timeout(CONNECT, opened).await.unwrap_or_else(|_| Err(late()))
}

/// The error when nothing came in time.
pub(super) fn late() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::TimedOut).into()
}
