//! Work that may block, on a thread of its own.

use std::io;
use std::thread::Builder;

use tokio::sync::oneshot;

/// Does the work beside the loop. An error if no thread is to be had: `spawn_blocking` panics then.
pub(super) async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, answer) = oneshot::channel();
    Builder::new().name("aside".into()).spawn(move || drop(done.send(work())))?;
    answer.await.map_err(|_| io::Error::other("it panicked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn panic_of_the_work_is_an_error() {
        assert_eq!(aside(|| 7).await.unwrap(), 7);
        let failed = aside(|| -> u8 { panic!("as this test wants") }).await.unwrap_err();
        assert_eq!(failed.to_string(), "it panicked");
    }
}
