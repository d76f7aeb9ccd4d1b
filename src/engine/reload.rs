//! Reads the settings again while everything runs. It applies all of them or none.

use tokio::sync::{mpsc::Sender, oneshot};

use super::aside::aside;
use super::fresh::ReadSettings;
use super::request::Request;
use api::{Problem, Reloaded};

/// Passes new settings to the loop.
#[derive(Clone)]
pub(crate) struct Reloader {
    read: ReadSettings,
    requests: Sender<Request>,
}

impl Reloader {
    /// Reads settings by `read` and sends them by `requests`.
    pub(crate) fn new(read: ReadSettings, requests: Sender<Request>) -> Self {
        Reloader { read, requests }
    }

    /// Reads the settings and applies them unless it is a dry run. Gives what that does to each pool. An error in the
    /// settings changes nothing.
    pub(crate) async fn reload(&self, dry_run: bool, by: String) -> Result<Reloaded, Problem> {
        let read = self.read.clone();
        // It may look up users, and read files on a slow disk.
        let fresh = aside(move || read()).await;
        let fresh = fresh.unwrap_or_else(|error| Err(format!("they cannot be read now: {error}")));
        let (answer, steps) = oneshot::channel();
        let read = fresh.as_ref().map(|fresh| (fresh.file.clone(), fresh.changed.clone()));
        let read = read.map_err(Clone::clone);
        let gone = || Problem::unavailable("the supervisor is ending");
        self.requests.send(Request::Reload { fresh, dry_run, by, answer }).await.map_err(|_| gone())?;
        let steps = steps.await.map_err(|_| gone())?;
        let hint = "nothing was changed: what ran goes on with the settings it has";
        let refused = |why| Problem::conflict(format!("the settings are wrong: {why}")).hint(hint);
        let pools = steps.into_iter().map(|(pool, step)| (pool, step.as_str().to_owned())).collect();
        let (file, changed) = read.map_err(refused)?;
        Ok(Reloaded { file, pools, changed })
    }

    /// The same for a signal, without waiting for the answer.
    pub(crate) fn on_signal(&self) {
        let reloader = self.clone();
        // The loop logs the result.
        tokio::spawn(async move { drop(reloader.reload(false, "SIGHUP".into()).await) });
    }
}
