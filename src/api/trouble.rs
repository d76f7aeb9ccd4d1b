//! A listener that cannot accept, as when there are no descriptors, and when that is over.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Quiet time before the trouble counts as over. At the limit a connection gets in whenever another one ends: without this
/// pause each of them would be told.
const CALM: Duration = Duration::from_secs(2);

/// Takes note that accepting has failed, or works again.
pub trait NoteAccepting: Fn(Result<(), &io::Error>) + Send + Sync + 'static {}

impl<F: Fn(Result<(), &io::Error>) + Send + Sync + 'static> NoteAccepting for F {}

/// Whether accepting fails at the moment.
#[derive(Debug)]
pub(super) struct Trouble<F> {
    /// The latest failure, while it lasts.
    last: Option<Instant>,
    note: F,
}

impl<F: NoteAccepting> Trouble<F> {
    pub(crate) fn new(note: F) -> Self {
        Trouble { last: None, note }
    }

    /// Accepting has failed.
    pub(crate) fn again(&mut self, error: &io::Error) {
        self.last = Some(Instant::now());
        (self.note)(Err(error));
    }

    /// Returns, and notes it, once accepting has worked for a while; waits for ever while nothing is wrong.
    pub(crate) async fn over(&mut self) {
        let Some(last) = self.last else { return std::future::pending().await };
        sleep_until(last + CALM).await;
        self.last = None;
        (self.note)(Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_is_noted_and_its_end_once_it_has_been_calm() {
        let noted = Mutex::new(Vec::new());
        let noted: &'static Mutex<Vec<Option<String>>> = Box::leak(Box::new(noted));
        let note =
            |how: Result<(), &io::Error>| noted.lock().unwrap().push(how.err().map(ToString::to_string));
        let mut trouble = Trouble::new(note);
        let error = io::Error::other("no descriptor");
        trouble.again(&error);
        tokio::time::advance(CALM / 2).await;
        trouble.again(&error);
        let began = Instant::now();
        trouble.over().await;
        assert_eq!(began.elapsed(), CALM);
        let failed = Some("no descriptor".to_owned());
        assert_eq!(*noted.lock().unwrap(), [failed.clone(), failed, None]);
        let never = tokio::time::timeout(CALM * 2, trouble.over()).await;
        assert!(never.is_err(), "nothing is wrong");
    }
}
