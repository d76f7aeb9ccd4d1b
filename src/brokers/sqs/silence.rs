//! Requests that SQS does not answer, so that the health names an outage before they are given up.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use super::fault::Fault;
use common::lock;
use model::Instant;

/// Without an answer for this long, beyond what a receive waits by itself, the service counts as silent.
const PATIENCE: Duration = Duration::from_secs(5);
/// A request that was given up says so for this long, if no other one is made.
const OLD: Duration = Duration::from_secs(60);

/// The requests that have no answer yet.
#[derive(Default)]
pub(super) struct Silence(Mutex<Asked>);

#[derive(Default)]
struct Asked {
    next: u64,
    /// When each request that is open was to be answered at the latest.
    open: BTreeMap<u64, Instant>,
    /// The same of the first that was given up since the latest answer, and when the latest was.
    given_up: Option<(Instant, Instant)>,
}

impl Silence {
    /// Makes a request that may take this long by itself.
    pub(super) async fn note<T>(
        &self,
        now: impl Fn() -> Instant,
        wait: Duration,
        asked: impl Future<Output = Result<T, Fault>>,
    ) -> Result<T, Fault> {
        let number = lock(&self.0).begin(now() + wait);
        // Its drop notes the end: a caller may drop this future at the await.
        let mut open = Open { silence: self, number, now, is_answered: false };
        let answer = asked.await;
        open.is_answered = !matches!(answer, Err(Fault::Unanswered(_)));
        answer
    }

    /// What is wrong, if SQS does not answer.
    pub(super) fn told(&self, now: Instant) -> Option<String> {
        let asked = lock(&self.0);
        let given_up = asked.given_up.filter(|(_, at)| now.since(*at) < OLD).map(|(due, _)| due);
        let first = asked.open.values().copied().chain(given_up).min()?;
        let is_silent = now >= first + PATIENCE;
        is_silent.then(|| format!("SQS has not answered for more than {} s", PATIENCE.as_secs()))
    }
}

impl Asked {
    fn begin(&mut self, due: Instant) -> u64 {
        self.next += 1;
        self.open.insert(self.next, due);
        self.next
    }

    fn end(&mut self, number: u64, is_answered: bool, now: Instant) {
        let Some(due) = self.open.remove(&number) else { return };
        self.given_up = match (is_answered, self.given_up) {
            // Any answer shows that the service answers again.
            (true, _) => None,
            (false, Some((first, _))) => Some((first.min(due), now)),
            (false, None) => Some((due, now)),
        };
    }
}

/// A request that is open. It may be given up at any time.
struct Open<'a, N: Fn() -> Instant> {
    silence: &'a Silence,
    number: u64,
    now: N,
    is_answered: bool,
}

impl<N: Fn() -> Instant> Drop for Open<'_, N> {
    fn drop(&mut self) {
        lock(&self.silence.0).end(self.number, self.is_answered, (self.now)());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: u64) -> Instant {
        Instant::from_millis(second * 1000)
    }

    #[test]
    fn silence_is_told_after_five_seconds_until_an_answer_comes() {
        let silence = Silence::default();
        let told = |second| silence.told(at(second)).is_some();
        let poll = lock(&silence.0).begin(at(20));
        let call = lock(&silence.0).begin(at(10));
        assert_eq!((told(14), told(15)), (false, true));
        lock(&silence.0).end(call, false, at(16));
        assert!(told(16), "it was given up without an answer");
        let next = lock(&silence.0).begin(at(17));
        lock(&silence.0).end(next, true, at(18));
        assert_eq!((told(18), told(24), told(25)), (false, false, true), "the poll is open");
        lock(&silence.0).end(poll, false, at(26));
        assert_eq!((told(85), told(86)), (true, false), "nobody asks any more");
    }
}
