//! A door that lets nobody in, as when there are no descriptors: told once when it begins, and once when it is over.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// So long nothing may go wrong before it is over: at the limit one comes in whenever another goes.
const CALM: Duration = Duration::from_secs(2);

/// What goes wrong just now.
#[derive(Debug, Default)]
pub(super) struct Trouble {
    /// Since when, and the latest time.
    lasts: Option<(Instant, Instant)>,
}

impl Trouble {
    /// It went wrong.
    pub fn again(&mut self, error: &io::Error) {
        let now = Instant::now();
        if self.lasts.is_none() {
            tracing::warn!(%error, "failed to accept a connection; it is tried again, and told when it goes well");
        }
        self.lasts = Some((self.lasts.map_or(now, |(since, _)| since), now));
    }

    /// Comes back once it is over, which is told; never while all is well.
    pub async fn over(&mut self) {
        let Some((since, last)) = self.lasts else { return std::future::pending().await };
        sleep_until(last + CALM).await;
        self.lasts = None;
        tracing::info!("over after {:.1}s: failed to accept a connection", (last - since).as_secs_f64());
    }
}
