//! Where news come together and go out to whoever listens just now.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::broadcast::{Receiver, Sender, channel};

use crate::model::{Millis, News, What};

/// What a listener may fall behind before it loses the oldest.
const KEPT: usize = 4096;
/// For so long the last of the news waits for those who read slowly.
const FAREWELL: Duration = Duration::from_secs(1);

/// One for a supervisor and its broker. Nobody who tells waits for those who listen.
#[derive(Clone, Debug)]
pub struct Newsroom {
    out: Sender<Arc<News>>,
    told: Arc<AtomicU64>,
}

impl Default for Newsroom {
    fn default() -> Self {
        Newsroom { out: channel(KEPT).0, told: Arc::default() }
    }
}

impl Newsroom {
    /// Whether anybody listens: else news need not even be made.
    pub fn is_heard(&self) -> bool {
        self.out.receiver_count() > 0
    }

    /// Tells one, which gets its number.
    pub fn tell(&self, news: News) {
        let n = self.told.fetch_add(1, Ordering::Relaxed) + 1;
        // Nobody may be there any more.
        let _ = self.out.send(Arc::new(News { n, ..news }));
    }

    /// Tells that there are no more, how many verdicts are left untold, and which processes are left alive; comes back when
    /// those who listen have heard it.
    pub async fn close(&self, at: Millis, untold: u64, alive: String) {
        let count = (untold > 0).then_some(untold);
        let why = Some(alive).filter(|alive| !alive.is_empty());
        self.tell(News { count, why, ..News::new(What::Ended, at) });
        // Who does not read gets no more than a moment.
        let _ = tokio::time::timeout(FAREWELL, self.out.closed()).await;
    }

    /// Comes back when nobody listens.
    pub async fn unheard(&self) {
        self.out.closed().await;
    }

    /// From now on.
    pub fn listen(&self) -> Receiver<Arc<News>> {
        self.out.subscribe()
    }
}
