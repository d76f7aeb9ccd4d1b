//! Settings that were read again, and how to make the workers of all settings so far.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use tokio::task::JoinHandle;

use super::authors::Authors;
use api::Changed;
use model::{Change, ConfigShown, Diagnosis, PoolSettings, PoolStatus, Settings, SpawnSpec};
use process::Plan;

/// Reads the settings, or says what is wrong with them and where.
pub type ReadSettings = Arc<dyn Fn() -> Result<Fresh, String> + Send + Sync>;

/// The settings in force, without secrets.
pub type ShowSettings = Arc<dyn Fn() -> ConfigShown + Send + Sync>;

/// Looks at what this machine lacks, or says why that cannot be told.
pub type Examine = Arc<dyn Fn() -> Examined + Send + Sync>;

/// The answer of a look.
pub type Examined = Pin<Box<dyn Future<Output = Result<Diagnosis, String>> + Send>>;

/// Stores the changes that last, all of them each time, and who made them, so that they outlive this supervisor.
pub type KeepChanges = Box<dyn Fn(&[(String, Change)], &Authors) -> Kept + Send>;

/// Resolves when the changes are on disk, or with the error; None = nothing had to be written.
pub type Kept = Option<JoinHandle<Result<(), String>>>;

/// Settings as they were read.
pub struct Fresh {
    /// The file from which they were read. None: all settings come from flags and variables, which never change.
    pub file: Option<String>,
    /// The settings to run by.
    pub settings: Settings,
    /// How to make the workers of each pool.
    pub specs: Vec<SpawnSpec>,
    /// Settings that have changed.
    pub changed: Vec<Changed>,
    /// Stores the settings, once they are in force, so that they outlive this supervisor; or says why that fails.
    pub keep: Box<dyn FnOnce() -> Result<(), String> + Send>,
}

/// How to make the workers of each pool, under all settings by which some live: equal specs have one number.
#[derive(Debug)]
pub(crate) struct SpawnSpecs {
    /// None: no pool uses that number.
    all: Vec<Option<SpawnSpec>>,
    /// The path of the API's socket.
    socket: PathBuf,
    /// The parent of the directories of slots.
    sandboxes: PathBuf,
}

impl SpawnSpecs {
    /// None yet, of workers that find the API at this socket and have their directories there.
    pub(crate) fn new(socket: PathBuf, sandboxes: PathBuf) -> SpawnSpecs {
        SpawnSpecs { all: Vec::new(), socket, sandboxes }
    }

    /// How to make the workers of a pool whose spec has its number.
    pub(crate) fn plan(&self, pool: &PoolSettings) -> Option<Plan> {
        self.get(pool.spec).map(|spec| Plan::new(pool, spec, &self.socket, &self.sandboxes))
    }

    /// Writes the number of its spec into each pool. Lets go of what no pool uses: `used` has the numbers of those that
    /// there are, also of those that leave.
    pub(crate) fn number(
        &mut self,
        settings: &mut Settings,
        specs: Vec<SpawnSpec>,
        used: impl Iterator<Item = u32>,
    ) {
        let used: BTreeSet<usize> = used.map(|number| number as usize).collect();
        let unused = self.all.iter_mut().enumerate().filter(|(number, _)| !used.contains(number));
        unused.for_each(|(_, spec)| *spec = None);
        for (pool, spec) in settings.pools.iter_mut().zip(specs) {
            // Workers of former settings live on, so a number in use always means the same spec.
            let known = self.all.iter().position(|known| known.as_ref() == Some(&spec));
            let number = known.unwrap_or_else(|| self.take_in(spec));
            pool.spec = number as u32;
        }
    }

    fn take_in(&mut self, spec: SpawnSpec) -> usize {
        let free = self.all.iter().position(Option::is_none).unwrap_or(self.all.len());
        match self.all.get_mut(free) {
            Some(place) => *place = Some(spec),
            None => self.all.push(Some(spec)),
        }
        free
    }

    /// Writes into each pool the user of its processes, unless that is the supervisor's. Both lists are in the same
    /// order.
    pub(crate) fn name_users<'a>(
        &self,
        specs: impl Iterator<Item = u32>,
        pools: impl Iterator<Item = &'a mut PoolStatus>,
    ) {
        for (pool, spec) in pools.zip(specs) {
            let identity = self.get(spec).and_then(|spec| spec.identity.as_ref());
            pool.user = identity.map(|user| user.name.clone());
        }
    }

    /// The spec of that number.
    fn get(&self, number: u32) -> Option<&SpawnSpec> {
        self.all.get(number as usize)?.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers the specs of pools that work in these directories, and gives the numbers.
    fn number(specs: &mut SpawnSpecs, dirs: &[&str], used: &[u32]) -> Vec<u32> {
        let pools = vec![PoolSettings::default(); dirs.len()];
        let mut settings = Settings { pools, ..Settings::default() };
        let made = |dir: &&str| SpawnSpec { cwd: Some((*dir).into()), ..SpawnSpec::default() };
        specs.number(&mut settings, dirs.iter().map(made).collect(), used.iter().copied());
        settings.pools.iter().map(|pool| pool.spec).collect()
    }

    #[test]
    fn what_no_pool_uses_is_let_go_of_at_the_next_reload() {
        let mut specs = SpawnSpecs::new(PathBuf::new(), PathBuf::new());
        assert_eq!(number(&mut specs, &["/a", "/b", "/a"], &[]), [0, 1, 0]);
        // Workers of /a live on, those of /b are gone.
        assert_eq!(number(&mut specs, &["/c", "/d"], &[0]), [1, 2]);
        for reload in 0..9 {
            let dir = format!("/{reload}");
            number(&mut specs, &[&dir], &[0]);
        }
        assert_eq!(specs.all.iter().flatten().count(), 2, "{:?}", specs.all);
        assert_eq!(number(&mut specs, &["/a"], &[0]), [0], "its number stays");
    }
}
