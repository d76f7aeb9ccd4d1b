//! A listener that cannot accept, as when there are no descriptors: logged once when it begins and once when it recovers.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Quiet time before the trouble counts as over. At the limit a connection gets in whenever another one ends: without this
/// pause each of them would be logged.
const CALM: Duration = Duration::from_secs(2);

/// Whether accepting fails at the moment.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Since when it fails, and the latest failure.
    lasts: Option<(Instant, Instant)>,
}

impl Trouble {
    /// Accepting has failed.
    pub fn again(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.lasts.is_none() {
            tracing::warn!(%error, "failed to accept a connection; retrying (the log says when it recovers)");
        }
        self.lasts = Some((self.lasts.map_or(now, |(since, _)| since), now));
    }

    /// Returns, and logs it, once accepting has worked for a while; waits for ever while nothing is wrong.
    pub async fn over(&mut self) {
        let Some((since, last)) = self.lasts else { return std::future::pending().await };
        sleep_until(last + CALM).await;
        self.lasts = None;
        tracing::info!("recovered after {:.1}s: failed to accept a connection", (last - since).as_secs_f64());
    }
}
