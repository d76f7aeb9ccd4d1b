//! Logs failures that repeat: once when they begin, once a minute while they last, and once when they are over.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use super::Error;
use super::lock::lock;
use crate::model::Instant;

/// Pause between two log lines while a failure lasts.
const AGAIN: Duration = Duration::from_secs(60);

/// The failures that last at the moment.
#[derive(Debug, Default)]
pub struct Complaints(Mutex<BTreeMap<String, Lasting>>);

#[derive(Debug)]
struct Lasting {
    since: Instant,
    told: Instant,
    /// When it last failed; `how` says how.
    last: Instant,
    how: String,
}

impl Complaints {
    fn lasting(&self) -> MutexGuard<'_, BTreeMap<String, Lasting>> {
        lock(&self.0)
    }

    /// Notes whether `what` worked.
    pub fn note<T>(&self, what: &str, answer: &Result<T, Error>, now: Instant) {
        match answer {
            Ok(_) => self.well(what, now),
            Err(error) => self.wrong(what, error, now),
        }
    }

    /// Notes that `what` failed, and logs it if that is due.
    pub fn wrong(&self, what: &str, error: &Error, now: Instant) {
        match self.lasts(what, error, now) {
            Some(Duration::ZERO) => {
                tracing::warn!(%error, "{what}; retrying (the log says when it recovers)")
            }
            Some(since) => tracing::warn!(%error, "{what}, for {}s now", since.as_secs()),
            None => {}
        }
    }

    /// Notes that `what` worked, and logs that if it failed before.
    pub fn well(&self, what: &str, now: Instant) {
        if let Some(lasted) = self.end(what, now) {
            tracing::info!("recovered after {:.1}s: {what}", lasted.as_secs_f64());
        }
    }

    /// Notes that `what` is not tried again, as nothing is left to do; logs that if it failed before.
    pub fn moot(&self, what: &str, now: Instant) {
        if let Some(lasted) = self.end(what, now) {
            tracing::info!(
                "given up after {:.1}s, as nothing is left to be done: {what}",
                lasted.as_secs_f64()
            );
        }
    }

    /// How long it failed. If it was not tried for long, the time ends with its last try.
    fn end(&self, what: &str, now: Instant) -> Option<Duration> {
        let Lasting { since, last, .. } = self.lasting().remove(what)?;
        Some(if now.since(last) <= 2 * AGAIN { now.since(since) } else { last.since(since) })
    }

    /// How it failed last, if it has not worked since.
    pub fn latest(&self, what: &str) -> Option<String> {
        self.lasting().get(what).map(|lasting| lasting.how.clone())
    }

    /// For how long it has failed, if that is to be logged now.
    fn lasts(&self, what: &str, error: &Error, now: Instant) -> Option<Duration> {
        let mut lasting = self.lasting();
        // A failure that was last seen long ago counts as over: this is a new one.
        let Some(known) = lasting.get_mut(what).filter(|known| now.since(known.last) <= 2 * AGAIN) else {
            let how = error.to_string();
            lasting.insert(what.into(), Lasting { since: now, told: now, last: now, how });
            return Some(Duration::ZERO);
        };
        (known.last, known.how) = (now, error.to_string());
        if now.since(known.told) < AGAIN {
            return None;
        }
        known.told = now;
        Some(now.since(known.since))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lasting_problem_is_logged_once_a_minute() {
        let complaints = Complaints::default();
        let at = |second: u64| Instant::from_millis(second * 1000);
        let full = Error::Failed("the disk is full".into());
        let told = |second: u64| complaints.lasts("x", &full, at(second));
        assert_eq!(told(5), Some(Duration::ZERO));
        assert_eq!((told(6), told(64)), (None, None));
        assert_eq!(told(65), Some(AGAIN));
        assert_eq!((told(66), told(124)), (None, None));
        assert_eq!(told(125), Some(2 * AGAIN));
        // One trouble says nothing of another, and what is over begins again.
        assert_eq!(complaints.lasts("y", &Error::Failed("it fails".into()), at(126)), Some(Duration::ZERO));
        assert_eq!(complaints.latest("x"), Some(full.to_string()));
        complaints.well("x", at(127));
        assert_eq!(complaints.latest("x"), None);
        assert_eq!(told(128), Some(Duration::ZERO));
        assert_eq!(told(1000), Some(Duration::ZERO));
        // Nobody tried for long: how long it lasted after the last try is not known.
        assert_eq!(told(1060), Some(AGAIN));
        assert_eq!(complaints.end("x", at(9000)), Some(AGAIN));
        assert_eq!(complaints.end("x", at(9001)), None);
    }
}
