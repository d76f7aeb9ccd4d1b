//! Resolves flags, environment and file into settings.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::api::{ApiSection, resolve_remote};
use super::config::Config;
use super::file::read;
use super::flags::Flags;
use super::made::Made;
use super::paths::from_here;
use super::pool::Pool;
use super::positions::Source;
use super::purpose::{Purpose, Reading};
use super::route::{RouteSection, RouteTo};
use super::row::Setting;
use super::section::Section;
use super::spec::resolve_pool;
use super::volume::place_within_volume;
use super::wrong::Wrong;
use super::{Error, Fault, File, Surroundings, format_duration, socket};
use broker::Address;
use model::{PoolSettings, Settings, SpawnSpec, Work};

impl Config {
    /// The first setting that differs from the one read again and that only a restart takes.
    pub fn needs_restart(&self, read: &Config) -> Option<&'static str> {
        let of_api = || match (&self.api, &read.api) {
            (Some(api), Some(read)) => ApiSection::needs_restart(api, read),
            (None, None) => None,
            (Some(_), None) | (None, Some(_)) => Some("api.listen"),
        };
        File::needs_restart(self, read).or_else(of_api)
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
    let mut file = flags.whole.clone().over(file);
    let with = Reading { purpose: flags.purpose, around };
    let broker = named_broker(&flags, &file, source.as_ref())?;
    let state_dir = match file.state_dir.take() {
        Some(dir) => from_here(dir)?,
        None => around.state_dir()?,
    };
    let (run_dir, of_job) = run_dir(&flags, file.run_dir.take(), around)?;
    // A job's command is told which directory is its supervisor's; only a person's command may have to look for that of
    // another user.
    let looks = flags.purpose == Purpose::Find && !of_job;
    let state_dir = place_within_volume(state_dir, around.uid, looks)?;
    let in_job = of_job && !broker_is_named && !state_dir_is_named && file.broker.is_none();
    let broker_is_said = broker.is_some();
    let broker = match broker {
        Some(broker) => match broker.file() {
            Some(path) => brokers::in_file(from_here(path.to_owned())?),
            None => broker,
        },
        None => brokers::in_file(state_dir.join("store.db")),
    };
    // Routes belong to the file's broker: a broker named elsewhere has none.
    let said = file.route.take().filter(|_| !broker_is_named).unwrap_or_default();
    let routes = in_file(&flags, routes(said, &broker), source.as_ref())?;
    let said_pools = file.pools.take();
    let mut config = Config {
        settings: of_flags(&flags)?,
        state_dir,
        state_dir_is_named,
        run_dir,
        in_job,
        broker,
        broker_is_named,
        broker_is_said,
        routes,
        ..Config::default()
    };
    in_file(&flags, file.write(&mut config, &with), source.as_ref())?;
    config.log.dir = config.log.dir.map(|dir| place_within_volume(dir, around.uid, looks)).transpose()?;
    // A supervisor that starts runs here, also where TASKVISOR_URL is set for other commands.
    let url = flags.url.clone().filter(|_| flags.purpose == Purpose::Find);
    config.remote = resolve_remote(url, flags.token_file.clone(), around)?;
    let pools = pools(flags, said_pools, source.as_ref(), config.settings.lease, around, &config.broker)?;
    (config.settings.pools, config.specs) = pools;
    config.file = source;
    Ok(config)
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

/// The settings that flags alone give.
fn of_flags(flags: &Flags) -> Result<Settings, Error> {
    Ok(Settings {
        burst: flags.burst,
        end_after: flags.end_after,
        end_when_idle: flags.end_when_idle,
        watch: flags.watch.iter().map(|dir| from_here(dir.clone())).collect::<Result<_, _>>()?,
        ..Settings::default()
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
fn run_dir(flags: &Flags, named: Option<PathBuf>, around: &Surroundings) -> Result<(PathBuf, bool), Error> {
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

fn routes(said: Vec<RouteSection>, broker: &Address) -> Result<Vec<RouteTo>, Wrong> {
    let one = |(index, route): (usize, RouteSection)| {
        route.resolve().map_err(|(key, error)| Wrong::at(format!("route.{index}.{key}"), error))
    };
    let resolved: Result<Vec<RouteTo>, _> = said.into_iter().enumerate().map(one).collect();
    // Without routes to the broker itself, where jobs go anyway.
    Ok(resolved?.into_iter().filter(|route| !route.to.is_at(&broker.to_string())).collect())
}

/// An error of what the file says gets the position of the setting, unless a flag said it.
fn in_file<T>(flags: &Flags, found: Result<T, Wrong>, source: Option<&Source>) -> Result<T, Error> {
    found.map_err(|wrong| {
        let source = source.filter(|_| !flags.whole.says(&wrong.key));
        let place = source.map(|source| source.of(None, &wrong.key));
        wrong.placed(place)
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
    let (mut names, with) = (BTreeSet::new(), Reading { purpose: flags.purpose, around });
    let resolved = pools.into_iter().enumerate().map(|(index, pool)| {
        let name = pool.name.clone().unwrap_or_else(|| PoolSettings::default().name);
        let resolved = own_name(&mut names, &name)
            .and_then(|()| resolve_pool(&name, pool, &with))
            .and_then(|made| leaves_room(lease, made.pool.grace).map(|()| made))
            .map(|Made { pool, spec }| (PoolSettings { turn: broker.turn(), ..pool }, spec));
        resolved.map_err(|wrong| {
            // A value that a flag gave has no place in the file.
            let in_file = source.filter(|_| !flags.pool.says(&wrong.key));
            let place = in_file.map(|source| source.of(Some(index), &wrong.key));
            wrong.of(&name, place)
        })
    });
    let (pools, specs): (Vec<_>, Vec<_>) = resolved.collect::<Result<Vec<_>, Error>>()?.into_iter().unzip();
    // Only where a person waits for the answer: a supervisor that starts again goes on with what it has.
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
