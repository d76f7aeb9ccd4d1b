//! All settings, as they are used.

use std::path::PathBuf;
use std::sync::Arc;

use super::api::{Api, Remote};
use super::identity::SocketGroup;
use super::positions::Source;
use super::route::RouteTo;
use super::{Web, log_file, socket};
use ::wq;
use broker::{Address, Broker, Opening, Route};
use model::{JobId, LogSettings, Settings, SpawnSpec};
use outbox::Outbox;

/// All settings, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// The settings file, if there is one.
    pub file: Option<Source>,
    /// The settings of the supervisor.
    pub settings: Settings,
    /// How to make the workers of each pool.
    pub specs: Vec<SpawnSpec>,
    /// The directory for data that must last.
    pub state_dir: PathBuf,
    /// Whether a flag or the environment set `state_dir`.
    pub state_dir_is_named: bool,
    /// The directory for the socket.
    pub run_dir: PathBuf,
    /// Whether this is a command that a job runs, for the job's own supervisor: then no store is looked for.
    pub in_job: bool,
    /// The group whose members may use the socket, besides the supervisor's user and root.
    pub socket_group: Option<SocketGroup>,
    /// The broker of the jobs.
    pub broker: Address,
    /// Whether a flag or the environment set the broker; false if it is only the one in this state directory.
    pub broker_is_named: bool,
    /// Whether a flag, the environment or the settings file set the broker.
    pub broker_is_said: bool,
    /// Rules that send new jobs to another broker; the first that matches counts.
    pub routes: Vec<RouteTo>,
    /// How the supervisor logs, and how much output of jobs it keeps.
    pub log: LogSettings,
    /// The API over TCP, if there is one.
    pub api: Option<Api>,
    /// The page for browsers.
    pub web: Web,
    /// Settings for notifications; `None` = none are accepted.
    pub tasks: Option<wq::Settings>,
    /// The supervisor to talk to, if it is not that of this machine.
    pub remote: Option<Remote>,
}

impl Default for Config {
    /// What nothing said means, but for directories and broker, which depend on the user.
    fn default() -> Self {
        Config {
            file: None,
            settings: Settings::default(),
            specs: Vec::new(),
            state_dir: PathBuf::new(),
            state_dir_is_named: false,
            run_dir: PathBuf::new(),
            in_job: false,
            socket_group: None,
            broker: brokers::in_file(PathBuf::new()),
            broker_is_named: false,
            broker_is_said: false,
            routes: Vec::new(),
            log: LogSettings::default(),
            api: None,
            web: Web::default(),
            tasks: None,
            remote: None,
        }
    }
}

/// The broker of this URL, if the program knows its kind.
pub fn broker_of(url: &str) -> Option<Address> {
    brokers::address(url).ok()
}

impl Config {
    /// How many slots the pools ask for.
    pub fn slots(&self) -> u64 {
        self.settings.pools.iter().map(|pool| u64::from(pool.workers)).sum()
    }

    /// Opens the broker, with the routes of new jobs to others.
    pub fn open_broker(&self, how: &Opening) -> Result<Broker, broker::Error> {
        let broker = self.broker.open(how)?;
        let route = |route: &RouteTo| {
            let (to, elsewhere) = (route.to.clone(), Opening::passing(&self.state_dir));
            Route::new(route.classes.clone(), route.percent, move || to.open(&elsewhere))
        };
        Ok(broker.with_routes(self.routes.iter().map(route).collect()))
    }

    /// Opens the outbox of new jobs, if notifications are kept while the broker is away, or if jobs are left in one.
    pub async fn open_outbox(&self, broker: &Arc<Broker>) -> Result<Option<Arc<Outbox>>, broker::Error> {
        let keeps = self.tasks.as_ref().is_some_and(|tasks| tasks.when_away == wq::WhenAway::Keep);
        Outbox::open(&self.state_dir, broker, keeps).await
    }

    /// The supervisor's socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.run_dir)
    }

    /// The file for the output of a job.
    pub fn log_file(&self, id: &JobId) -> PathBuf {
        log_file(&self.state_dir, id)
    }
}
