//! Reading the settings again while everything runs: all of them or none.

use std::sync::Arc;

use tokio::sync::{mpsc::Sender, oneshot};

use super::event_loop::Request;
use super::orders::Pauses;
use crate::api::{Changed, Problem, Reloaded};
use crate::model::{Change, PoolStatus, Settings, SpawnSpec};

/// Reads the settings, or says what is wrong with them and where.
pub type ReadSettings = Arc<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// Has changes outlive the supervisor that they were asked of: all that last, each time, and who paused what.
pub type KeepChanges = Box<dyn Fn(&[(String, Change)], &Pauses) + Send>;

/// What was read.
pub struct Fresh {
    /// The file it was read from; without one all is from flags and variables, which stay as they were.
    pub file: Option<String>,
    /// What to keep up.
    pub settings: Settings,
    /// How the workers of each of its pools are made.
    pub outfits: Vec<SpawnSpec>,
    /// What is not as it was.
    pub changed: Vec<Changed>,
    /// Has them outlive this supervisor, once they count.
    pub keep: Box<dyn FnOnce() + Send>,
}

/// Takes settings to the loop.
#[derive(Clone)]
pub struct Reloader {
    read: ReadSettings,
    requests: Sender<Request>,
}

impl Reloader {
    /// Reads by `read` and tells the loop by `requests`.
    pub fn new(read: ReadSettings, requests: Sender<Request>) -> Self {
        Reloader { read, requests }
    }

    /// Reads them and, unless it is a dry run, applies them: what that does to each pool. What is wrong changes nothing.
    pub async fn reload(&self, dry_run: bool, by: String) -> Result<Reloaded, Problem> {
        let read = self.read.clone();
        // Names of users, and files on a slow disk.
        let fresh = tokio::task::spawn_blocking(move || read()).await;
        let fresh = fresh.unwrap_or_else(|error| Err(format!("failed to read the settings: {error}")));
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

    /// The same for a signal, which waits for no answer.
    pub fn on_signal(&self) {
        let reloader = self.clone();
        // The loop logs what comes of it.
        tokio::spawn(async move { drop(reloader.reload(false, "SIGHUP".into()).await) });
    }
}

/// All outfits there ever were: equal ones have one number.
#[derive(Debug, Default)]
pub struct SpawnSpecs(Vec<SpawnSpec>);

impl SpawnSpecs {
    /// Writes the number of its outfit into each pool.
    pub fn number(&mut self, settings: &mut Settings, outfits: Vec<SpawnSpec>) {
        for (pool, outfit) in settings.pools.iter_mut().zip(outfits) {
            let known = self.0.iter().position(|known| *known == outfit);
            let number = known.unwrap_or_else(|| {
                self.0.push(outfit);
                self.0.len() - 1
            });
            pool.outfit = number as u32;
        }
    }

    /// Writes into each pool whom its processes run as, if that is not the supervisor's user. Both are in the same order.
    pub fn name_users<'a>(
        &self,
        outfits: impl Iterator<Item = u32>,
        pools: impl Iterator<Item = &'a mut PoolStatus>,
    ) {
        for (pool, outfit) in pools.zip(outfits) {
            let identity = self.get(outfit).and_then(|outfit| outfit.identity.as_ref());
            pool.user = identity.map(|user| user.name.clone());
        }
    }

    /// The outfit of that number.
    pub fn get(&self, number: u32) -> Option<&SpawnSpec> {
        self.0.get(number as usize)
    }
}
