//! A cache for counts of jobs, as a broker may be slow or hang. It answers with the last count and its age, and waits
//! only briefly for a newer one.

use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::{Instant, timeout};

use broker::LASTS;

/// How long a reader waits that can be shown an older count.
pub(super) const GLANCE: Duration = Duration::from_millis(30);

/// A broker that has been silent for this time hangs, for now: no reader waits longer. That is trouble once it [`LASTS`].
pub(super) const HANGS: Duration = Duration::from_millis(500);

/// A count, perhaps an older one.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Counted<T> {
    /// The latest counts.
    pub counts: T,
    /// Age of the counts; None if they were taken for this question.
    pub age: Option<Duration>,
    /// The trouble with the broker. A little slowness is none.
    pub trouble: Option<String>,
}

impl<T: Default> Counted<T> {
    /// Drops counts that are older than the question.
    pub(super) fn of_now(self) -> Self {
        match self.age {
            Some(_) => Counted { trouble: self.trouble, ..Counted::default() },
            None => self,
        }
    }
}

/// Keeps the latest count, and since when the broker has not answered.
#[derive(Clone, Debug, Default)]
pub(super) struct CountCache<T>(Arc<Mutex<Kept<T>>>);

#[derive(Debug, Default)]
struct Kept<T> {
    latest: Option<(Instant, T)>,
    error: Option<String>,
    /// When the oldest unanswered question was asked.
    unanswered: Option<Instant>,
}

impl<T: Clone + Default + Send + 'static> CountCache<T> {
    /// Gives the counts. While the broker is known to hang, it returns the last ones at once and asks no further
    /// question.
    pub(super) async fn ask<E: ToString>(
        &self,
        patience: Duration,
        question: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> Counted<T> {
        let asked = Instant::now();
        let patience = self.kept().patience(patience);
        if let Some(patience) = patience {
            timeout(patience, self.send(question)).await.ok();
        }
        self.kept().counted(asked)
    }

    /// Sends the question; the channel reports the answer. The question goes on when the reader gives up, as its answer
    /// shows that the broker is back.
    fn send<E: ToString>(
        &self,
        question: impl Future<Output = Result<T, E>> + Send + 'static,
    ) -> oneshot::Receiver<()> {
        let (sender, answered) = oneshot::channel();
        self.kept().unanswered.get_or_insert(Instant::now());
        let cache = self.clone();
        tokio::spawn(async move {
            let answer = question.await;
            cache.kept().take_in(answer.map_err(|error| error.to_string()));
            sender.send(()).ok();
        });
        answered
    }

    fn kept(&self) -> MutexGuard<'_, Kept<T>> {
        // A panic leaves nothing half done here: each change is one assignment.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Clone + Default> Kept<T> {
    fn take_in(&mut self, answer: Result<T, String>) {
        // Any answer shows that the broker is back, also to those who still wait for theirs.
        self.unanswered = None;
        match answer {
            Ok(counts) => (self.latest, self.error) = (Some((Instant::now(), counts)), None),
            // The last counts stay: a reader sees their age beside the error.
            Err(error) => self.error = Some(error),
        }
    }

    /// How long to wait for an answer; None = the broker hangs. Before the first count there is no older one to show,
    /// so it waits longer.
    fn patience(&self, wanted: Duration) -> Option<Duration> {
        let patience = if self.latest.is_some() { wanted } else { HANGS };
        self.silence().is_none().then_some(patience)
    }

    /// Time since the broker hung; None if it answers.
    fn silence(&self) -> Option<Duration> {
        self.unanswered.map(|since| since.elapsed()).filter(|silence| *silence >= HANGS)
    }

    /// The answer for a reader who asked at that moment.
    fn counted(&self, asked: Instant) -> Counted<T> {
        let lasts = self.silence().filter(|silence| *silence >= LASTS);
        let silent = |silence: Duration| format!("no answer for {} s", silence.as_secs());
        let trouble = self.error.clone().or_else(|| lasts.map(silent));
        match &self.latest {
            Some((at, counts)) => {
                // The answer to another reader's question, asked at the same time, is as good as one to this.
                let age = (*at < asked).then(|| at.elapsed());
                Counted { counts: counts.clone(), age, trouble }
            }
            None => Counted { trouble, ..Counted::default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A cache with a count that is one second old.
    async fn with(count: u32) -> CountCache<u32> {
        let cache = CountCache::default();
        let found = cache.ask(GLANCE, async move { Ok::<_, String>(count) }).await;
        assert_eq!(found, Counted { counts: count, age: None, trouble: None });
        tokio::time::advance(SECOND).await;
        cache
    }

    async fn after<T>(wait: Duration, answer: T) -> T {
        tokio::time::sleep(wait).await;
        answer
    }

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn hanging_broker_delays_no_answer_and_is_detected() {
        let cache = with(7).await;
        let (release, hangs) = oneshot::channel::<()>();
        let question = async move {
            hangs.await.ok();
            Ok::<_, String>(8)
        };
        let first = Instant::now();
        let found = cache.ask(GLANCE, question).await;
        assert_eq!(first.elapsed(), GLANCE);
        assert_eq!(found, Counted { counts: 7, age: Some(SECOND + GLANCE), trouble: None });
        tokio::time::advance(HANGS).await;
        for _ in 0..100 {
            let (asked, never) = (Instant::now(), async { panic!("nothing more is asked of it") });
            let found = cache.ask::<String>(GLANCE, never).await;
            assert_eq!((asked.elapsed(), found.counts), (Duration::ZERO, 7));
            assert_eq!(found.trouble, None, "a broker may be slow for a moment");
        }
        tokio::time::advance(LASTS).await;
        let found = cache.ask(GLANCE, async { Ok::<_, String>(0) }).await;
        assert_eq!((found.counts, found.trouble.as_deref()), (7, Some("no answer for 5 s")));
        release.send(()).unwrap();
        while cache.kept().silence().is_some() {
            tokio::task::yield_now().await;
        }
        let found = cache.ask(GLANCE, async { Ok::<_, String>(9) }).await;
        assert_eq!(found, Counted { counts: 9, age: None, trouble: None });
    }

    #[tokio::test(start_paused = true)]
    async fn late_answer_is_used_for_the_next_request() {
        let cache = with(7).await;
        let found = cache.ask(GLANCE, after(2 * GLANCE, Ok::<_, String>(8))).await;
        assert_eq!(found, Counted { counts: 7, age: Some(SECOND + GLANCE), trouble: None });
        tokio::time::sleep(2 * GLANCE).await;
        let found = cache.ask(GLANCE, after(2 * GLANCE, Ok::<_, String>(9))).await;
        assert_eq!(found, Counted { counts: 8, age: Some(2 * GLANCE), trouble: None });
    }

    #[tokio::test(start_paused = true)]
    async fn first_count_is_waited_for_until_the_broker_hangs() {
        let (cache, asked) = (CountCache::default(), Instant::now());
        assert_eq!(cache.ask(GLANCE, after(4 * GLANCE, Ok::<_, String>(7))).await.counts, 7);
        assert_eq!(asked.elapsed(), 4 * GLANCE);
        let (cache, asked) = (CountCache::default(), Instant::now());
        let found = cache.ask(GLANCE, std::future::pending::<Result<u32, String>>()).await;
        assert_eq!((asked.elapsed(), found.trouble), (HANGS, None));
    }

    #[tokio::test(start_paused = true)]
    async fn failing_count_is_reported_until_one_succeeds() {
        let cache = with(7).await;
        let found = cache.ask(GLANCE, async { Err("disk full") }).await;
        assert_eq!(found, Counted { counts: 7, age: Some(SECOND), trouble: Some("disk full".into()) });
        assert_eq!(cache.ask(GLANCE, async { Ok::<_, String>(8) }).await.trouble, None);
    }

    #[tokio::test(start_paused = true)]
    async fn concurrent_requests_are_all_answered() {
        let cache = with(0).await;
        let slow = |n: u32| cache.ask(GLANCE, after(GLANCE / 4 * n, Ok::<_, String>(n)));
        let (one, two, three) = tokio::join!(slow(1), slow(2), slow(3));
        assert_eq!([one.counts, two.counts, three.counts], [1, 2, 3]);
        assert_eq!(cache.kept().unanswered, None);
    }
}
