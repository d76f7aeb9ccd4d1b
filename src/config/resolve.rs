//! Resolves flags, environment and file into settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, Remote, resolve_api, resolve_remote};
use super::file::read;
use super::flags::Flags;
use super::identity::{SocketGroup, socket_group};
use super::paths::from_here;
use super::pool::Pool;
use super::positions::Source;
use super::purpose::Purpose;
use super::route::{RouteSection, RouteTo};
use super::row::Setting;
use super::spec::resolve_pool;
use super::volume::place_within_volume;
use super::wrong::Wrong;
use super::{Error, Fault, File, Surroundings, format_duration, log_file, socket};
use ::wq;
use broker::{Address, Broker, Opening, Route};
use model::{JobId, LogSettings, PoolSettings, Settings, SpawnSpec, Work};
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
    /// Rules that send new jobs to another broker; the first that matches counts.
    pub routes: Vec<RouteTo>,
    /// How the supervisor logs, and how much output of jobs it keeps.
    pub log: LogSettings,
    /// The API over TCP, if there is one.
    pub api: Option<Api>,
    /// Settings for notifications; `None` = none are accepted.
    pub tasks: Option<wq::Settings>,
    /// The supervisor to talk to, if it is not that of this machine.
    pub remote: Option<Remote>,
}

impl Config {
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

/// Reads the file, if one is named, and resolves everything.
pub fn resolve(flags: Flags, around: &Surroundings) -> Result<Config, Error> {
    let (file, source) = match &flags.config {
        Some(path) => read(path, flags.in_force.as_deref()).map(|(file, source)| (file, Some(source)))?,
        None => (File::default(), None),
    };
    let (broker_is_named, state_dir_is_named) =
        (flags.whole.broker.is_some(), flags.whole.state_dir.is_some());
    let file = flags.whole.clone().over(file);
    let settings = of_supervisor(&flags, &file)?;
    let broker = named_broker(&flags, &file, source.as_ref())?;
    let state_dir = match file.state_dir.clone() {
        Some(dir) => from_here(dir)?,
        None => around.state_dir()?,
    };
    let (run_dir, of_job) = run_dir(&flags, &file, around)?;
    let looks = flags.purpose == Purpose::Find && !of_job;
    let state_dir = place_within_volume(state_dir, around.uid, looks)?;
    let in_job = of_job && !broker_is_named && !state_dir_is_named && file.broker.is_none();
    let socket_group =
        placed(&source, "socket_group", || file.socket_group.as_deref().map(socket_group).transpose())?;
    let broker = match broker {
        Some(broker) => match broker.file() {
            Some(path) => brokers::in_file(from_here(path.to_owned())?),
            None => broker,
        },
        None => brokers::in_file(state_dir.join("store.db")),
    };
    // Routes belong to the file's broker: a broker named elsewhere has none.
    let said = file.route.filter(|_| !broker_is_named).unwrap_or_default();
    let routes = in_file(&flags, routes(said, &broker), source.as_ref())?;
    let mut log = file.log.unwrap_or_default().resolve()?;
    log.dir = log.dir.map(|dir| place_within_volume(dir, around.uid, looks)).transpose()?;
    let api =
        in_file(&flags, resolve_api(file.api.unwrap_or_default(), flags.purpose, around), source.as_ref())?;
    let tasks = in_file(&flags, file.wq.unwrap_or_default().resolve(), source.as_ref())?;
    let url = flags.url.clone().filter(|_| flags.purpose == Purpose::Find);
    let remote = resolve_remote(url, flags.token_file.clone(), around)?;
    let (pools, specs) = pools(flags, file.pools, source.as_ref(), settings.lease, around, &broker)?;
    let settings = Settings { pools, ..settings };
    Ok(Config {
        file: source,
        settings,
        specs,
        state_dir,
        state_dir_is_named,
        run_dir,
        in_job,
        socket_group,
        broker,
        broker_is_named,
        routes,
        log,
        api,
        tasks,
        remote,
    })
}

/// The broker that a flag, the environment or the file names.
fn named_broker(flags: &Flags, file: &File, source: Option<&Source>) -> Result<Option<Address>, Error> {
    let Some(url) = &file.broker else { return Ok(None) };
    brokers::address(url).map(Some).map_err(|wrong| {
        // A flag or the environment has no place in the file.
        let place = source.filter(|_| flags.whole.broker.is_none()).map(|source| source.of(None, "broker"));
        Error { place, ..Error::new(Fault::Config, wrong.what).hint(wrong.hint) }
    })
}

/// The settings of the supervisor alone, without pools.
fn of_supervisor(flags: &Flags, file: &File) -> Result<Settings, Error> {
    let default = Settings::default();
    Ok(Settings {
        lease: file.lease.unwrap_or(default.lease),
        stop_deadline: file.stop_deadline.unwrap_or(default.stop_deadline),
        burst: flags.burst,
        end_after: flags.end_after,
        end_when_idle: flags.end_when_idle,
        held_degrades: file.held_degrades.unwrap_or(default.held_degrades),
        watch: flags.watch.iter().map(|dir| from_here(dir.clone())).collect::<Result<_, _>>()?,
        ..default
    })
}

/// Checks that the directories to watch are there, when a person starts a supervisor: a mistyped one would never say so.
/// Later, at a restart or a reload, one may be away for a moment, as a deploy replaces it.
pub fn watched_are_there(config: &Config) -> Result<(), Error> {
    for dir in &config.settings.watch {
        let why = match dir.metadata() {
            Ok(found) if found.is_dir() => continue,
            Ok(_) => "it is no directory".to_owned(),
            Err(error) => error.to_string(),
        };
        let message = format!("failed to watch {}: {why}", dir.display());
        return Err(Error::new(Fault::Usage, message).hint("--watch DIR takes the directory of the code"));
    }
    Ok(())
}

/// The run directory, and whether it is that of the job that runs this command: a job's commands are for its own
/// supervisor, unless they name another place. A supervisor that a job starts is none of them.
fn run_dir(flags: &Flags, file: &File, around: &Surroundings) -> Result<(PathBuf, bool), Error> {
    let named = file.run_dir.clone();
    let of_job = match flags.purpose {
        Purpose::Find if named.is_none() => around.run_dir_of_job(),
        Purpose::Find | Purpose::Start | Purpose::Serve => None,
    };
    let is_of_job = of_job.is_some();
    let run_dir = match (named, of_job) {
        (Some(dir), _) => from_here(dir)?,
        (None, Some(dir)) => dir,
        (None, None) => around.run_dir(),
    };
    let looks = flags.purpose == Purpose::Find && !is_of_job;
    let run_dir = place_within_volume(run_dir, around.uid, looks)?;
    fits_a_socket(&run_dir)?;
    Ok((run_dir, is_of_job))
}

/// Checks that the broker has what the commands of pools need.
fn serve(broker: &Address, specs: &[SpawnSpec]) -> Result<(), Error> {
    let lacks = |spec: &SpawnSpec| match &spec.work {
        Work::Command(command) => broker.lacks(command),
        Work::Programs | Work::Run(_) => None,
    };
    match specs.iter().find_map(lacks) {
        Some(lack) => Err(Error::new(Fault::Config, format!("the broker {broker} {lack}"))),
        None => Ok(()),
    }
}

/// Adds the position of the setting to an error.
fn placed<T>(
    source: &Option<Source>,
    name: &str,
    resolve: impl FnOnce() -> Result<T, Error>,
) -> Result<T, Error> {
    let place = || source.as_ref().map(|source| source.of(None, name));
    resolve().map_err(|error| Error { place: place(), ..error })
}

fn routes(said: Vec<RouteSection>, broker: &Address) -> Result<Vec<RouteTo>, (String, Error)> {
    let one = |(index, route): (usize, RouteSection)| {
        route.resolve().map_err(|(key, error)| (format!("route.{index}.{key}"), error))
    };
    let resolved: Result<Vec<RouteTo>, _> = said.into_iter().enumerate().map(one).collect();
    // Without routes to the broker itself, where jobs go anyway.
    Ok(resolved?.into_iter().filter(|route| !route.to.is_at(&broker.to_string())).collect())
}

/// Resolves a section of the file; an error names the setting and its position.
fn in_file<T, N: AsRef<str>>(
    flags: &Flags,
    found: Result<T, (N, Error)>,
    source: Option<&Source>,
) -> Result<T, Error> {
    found.map_err(|(name, error)| {
        let source = source.filter(|_| !flags.whole.says(name.as_ref()));
        let place = source.map(|source| source.of(None, name.as_ref()));
        Error { place, ..error }
    })
}

/// Length of `sun_path`, minus its final zero.
const SOCKET_PATH_MAX: usize = 107;

fn fits_a_socket(run_dir: &Path) -> Result<(), Error> {
    let socket = socket(run_dir);
    let len = socket.as_os_str().len();
    if len <= SOCKET_PATH_MAX {
        return Ok(());
    }
    let message = format!(
        "the path of the socket {} has {len} bytes, and {SOCKET_PATH_MAX} bytes are the most",
        socket.display()
    );
    Err(Error::new(Fault::Config, message).hint("give a shorter --run-dir or TASKVISOR_RUN_DIR"))
}

/// Limit of the pools of a supervisor.
const POOLS_MAX: usize = 1000;

fn pools(
    flags: Flags,
    file: Option<Vec<Pool>>,
    source: Option<&Source>,
    lease: Duration,
    around: &Surroundings,
    broker: &Address,
) -> Result<(Vec<PoolSettings>, Vec<SpawnSpec>), Error> {
    let mut pools = file.unwrap_or_else(|| vec![Pool::default()]);
    let place = || source.map(|source| source.of(None, "pools"));
    match pools.as_mut_slice() {
        [] => {
            let error = Error::new(Fault::Config, "there is no pool: nothing would run");
            return Err(Error { place: place(), ..error });
        }
        [only] => *only = flags.pool.clone().typed_over(std::mem::take(only)),
        several if flags.pool != Pool::default() => return Err(unclear(several.len())),
        _ => {}
    }
    if pools.len() > POOLS_MAX {
        let message = format!("there are {} pools, {POOLS_MAX} are the most", pools.len());
        let error = Error::new(Fault::Config, message).hint("one pool may take from several queues");
        return Err(Error { place: place(), ..error });
    }
    let mut names = BTreeSet::new();
    let resolved = pools.into_iter().enumerate().map(|(index, pool)| {
        let name = pool.name.clone().unwrap_or_else(|| PoolSettings::default().name);
        let resolved = own_name(&mut names, &name)
            .and_then(|()| resolve_pool(&name, pool, flags.purpose, around))
            .and_then(|pool| leaves_room(lease, pool.0.grace).map(|()| pool))
            .map(|(settings, spec)| (PoolSettings { turn: broker.turn(), ..settings }, spec));
        resolved.map_err(|wrong| {
            let in_file = source.filter(|_| !flags.pool.says(&wrong.key));
            let place = in_file.map(|source| source.of(Some(index), &wrong.key));
            wrong.of(&name, place)
        })
    });
    let (pools, specs): (Vec<_>, Vec<_>) = resolved.collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
    if flags.purpose == Purpose::Start {
        let place = || source.map(|source| source.of(None, "broker"));
        serve(broker, &specs).map_err(|error| Error { place: place(), ..error })?;
    }
    Ok((pools, specs))
}

fn unclear(pools: usize) -> Error {
    Error::new(Fault::Usage, format!("the file has {pools} pools: flags cannot say which they mean"))
        .hint("set in the file what belongs to a pool; TASKVISOR_WORKERS counts as a flag")
}

fn own_name(names: &mut BTreeSet<String>, name: &str) -> Result<(), Wrong> {
    // It is also the name of a directory.
    if name.is_empty() || name.starts_with('.') || name.contains(|c: char| c == '/' || c.is_control()) {
        return Err(Wrong::new("name", "this is no name").hint("use letters, digits, - and _"));
    }
    match names.insert(name.to_owned()) {
        true => Ok(()),
        false => Err(Wrong::new("name", "two pools have this name").hint("give each pool a name of its own")),
    }
}

/// At least a third of the lease must pass between the supervisor's last successful renewal and the keeper's own kill.
const FENCE_MARGIN: Duration = Duration::from_secs(2);

fn leaves_room(lease: Duration, grace: Duration) -> Result<(), Wrong> {
    let needed = grace.saturating_add(FENCE_MARGIN);
    if lease.saturating_sub(needed) > lease / 3 {
        return Ok(());
    }
    let (lease, grace) = (format_duration(lease), format_duration(grace));
    let least = format_duration(needed.saturating_mul(2));
    Err(Wrong::new("grace", format!("a lease of {lease} is too short for a grace of {grace}"))
        .hint(format!("a job must be dead before its lease ends: set lease to {least} or more")))
}
