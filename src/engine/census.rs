//! Counting the jobs of a broker that may hang: whoever asks for the picture must not wait for it again and again.

use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

/// How long an answer is waited for.
const PATIENCE: Duration = Duration::from_millis(500);

/// Knows since when the oldest question has been without an answer.
#[derive(Clone, Debug, Default)]
pub(super) struct Census(Arc<Mutex<Option<Instant>>>);

impl Census {
    /// The answer; or, without one, how long the broker has been silent. While it is known to hang nobody waits, and it is
    /// asked no further question.
    pub(super) async fn ask<T: Send + 'static>(
        &self,
        question: impl Future<Output = T> + Send + 'static,
    ) -> Result<T, Duration> {
        let silent = |since: Instant| since.elapsed();
        if let Some(silence) = self.since().map(silent).filter(|silence| *silence >= PATIENCE) {
            return Err(silence);
        }
        let (sender, answer) = oneshot::channel();
        let asked = Instant::now();
        self.set(|since| *since = Some(since.unwrap_or(asked)));
        let census = self.clone();
        // It is not given up with whoever asked: its answer is the sign that the broker is back.
        tokio::spawn(async move {
            let found = question.await;
            census.set(|since| *since = None);
            sender.send(found).ok();
        });
        match timeout(PATIENCE, answer).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(_)) | Err(_) => Err(asked.elapsed()),
        }
    }

    fn since(&self) -> Option<Instant> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, change: impl FnOnce(&mut Option<Instant>)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_broker_that_hangs_is_waited_for_once() {
        let census = Census::default();
        let (release, hangs) = oneshot::channel::<()>();
        let asked = Instant::now();
        assert_eq!(census.ask(async { hangs.await.is_ok() }).await, Err(PATIENCE));
        for _ in 0..100 {
            let never = async { panic!("nothing more is asked of it") };
            assert_eq!(census.ask::<()>(never).await, Err(PATIENCE), "without waiting");
        }
        assert_eq!(asked.elapsed(), PATIENCE);
        release.send(()).unwrap();
        while census.since().is_some() {
            tokio::task::yield_now().await;
        }
        assert_eq!(census.ask(async { 7 }).await, Ok(7));
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_asks_together_is_answered_each() {
        let census = Census::default();
        let slow = |n: u64| {
            census.ask(async move {
                tokio::time::sleep(Duration::from_millis(n * 100)).await;
                n
            })
        };
        assert_eq!(tokio::join!(slow(1), slow(2), slow(3)), (Ok(1), Ok(2), Ok(3)));
        assert_eq!(census.since(), None);
    }
}
