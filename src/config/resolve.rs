//! What was typed, set in the environment and written in the file, made into what it means.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::file::Pool;
use super::{
    BrokerUrl, Error, Fault, File, LogFormat, LogLevel, Surroundings, format_duration, log_file, socket,
};
use crate::model::{JobId, Outfit, PoolSettings, QueueName, Retry, Settings};

/// What was typed or set in the environment; a flag wins over the environment, which wins over the file.
#[derive(Clone, Debug, Default)]
pub struct Flags {
    /// `--config`
    pub config: Option<PathBuf>,
    /// `--state-dir`
    pub state_dir: Option<PathBuf>,
    /// `--run-dir`
    pub run_dir: Option<PathBuf>,
    /// `--broker`
    pub broker: Option<String>,
    /// `--lease`
    pub lease: Option<Duration>,
    /// `--stop-deadline`
    pub stop_deadline: Option<Duration>,
    /// `--log-format`
    pub log_format: Option<LogFormat>,
    /// `--log-level`
    pub log_level: Option<LogLevel>,
    /// `--burst`
    pub burst: bool,
    /// `--workers`
    pub workers: Option<u16>,
    /// `--queue`, in order
    pub queues: Vec<String>,
    /// `--grace`
    pub grace: Option<Duration>,
    /// `--boot-timeout`
    pub boot_timeout: Option<Duration>,
    /// `--time-limit`
    pub time_limit: Option<Duration>,
    /// `--retries`
    pub retries: Option<u32>,
}

/// All settings, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// What the supervisor keeps up.
    pub settings: Settings,
    /// How the workers of each of its pools are made.
    pub outfits: Vec<Outfit>,
    /// Where what must last is kept.
    pub state_dir: PathBuf,
    /// Where the socket is.
    pub run_dir: PathBuf,
    /// Where jobs wait.
    pub broker: BrokerUrl,
    /// What the supervisor writes to stderr.
    pub log: Log,
}

/// How the supervisor logs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// For people or for programs.
    pub format: LogFormat,
    /// How much.
    pub level: LogLevel,
}

impl Config {
    /// The supervisor's socket.
    pub fn socket(&self) -> PathBuf {
        socket(&self.run_dir)
    }

    /// The output of a job.
    pub fn log_file(&self, id: &JobId) -> PathBuf {
        log_file(&self.state_dir, id)
    }
}

/// Reads the file if one is named, and resolves everything.
pub fn resolve(flags: Flags, around: &Surroundings) -> Result<Config, Error> {
    let file = match &flags.config {
        Some(path) => File::read(path)?,
        None => File::default(),
    };
    let broker = match flags.broker.as_ref().or(file.broker.as_ref()) {
        Some(url) => Some(BrokerUrl::parse(url)?),
        None => None,
    };
    let state_dir = match flags.state_dir.clone().or(file.state_dir.clone()) {
        Some(dir) => from_here(dir)?,
        None => around.state_dir()?,
    };
    let run_dir = match flags.run_dir.clone().or(file.run_dir.clone()) {
        Some(dir) => from_here(dir)?,
        None => around.run_dir(),
    };
    fits_a_socket(&run_dir)?;
    let broker = match broker {
        Some(BrokerUrl::Sqlite(path)) => BrokerUrl::Sqlite(from_here(path)?),
        Some(BrokerUrl::Memory) => BrokerUrl::Memory,
        None => BrokerUrl::Sqlite(state_dir.join("store.db")),
    };
    let log = Log {
        format: flags.log_format.or(file.log.format).unwrap_or_default(),
        level: flags.log_level.or(file.log.level).unwrap_or_default(),
    };
    let settings = settings(&flags, file)?;
    check(&settings)?;
    let outfits = vec![Outfit::default(); settings.pools.len()];
    Ok(Config { settings, outfits, state_dir, run_dir, broker, log })
}

/// A relative path is one from the directory the command was typed in; the supervisor lives in another.
fn from_here(path: PathBuf) -> Result<PathBuf, Error> {
    std::path::absolute(&path).map_err(|error| {
        Error::new(Fault::Config, format!("the path '{}' cannot be used: {error}", path.display()))
    })
}

/// `sun_path`, less its final zero.
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

fn settings(flags: &Flags, file: File) -> Result<Settings, Error> {
    let default = Settings::default();
    let mut pools: Vec<PoolSettings> =
        file.pools.unwrap_or_else(|| vec![Pool::default()]).into_iter().map(pool).collect();
    match pools.as_mut_slice() {
        [only] => overrule(only, flags),
        _ if speaks_of_a_pool(flags) => {
            return Err(Error::new(
                Fault::Usage,
                format!("the file has {} pools: flags cannot say which they mean", pools.len()),
            )
            .hint("set workers, queues, grace, boot_timeout, time_limit and retries in the file"));
        }
        _ => {}
    }
    Ok(Settings {
        pools,
        lease: flags.lease.or(file.lease).unwrap_or(default.lease),
        stop_deadline: flags.stop_deadline.or(file.stop_deadline).unwrap_or(default.stop_deadline),
        burst: flags.burst,
        ..default
    })
}

fn pool(pool: Pool) -> PoolSettings {
    let default = PoolSettings::default();
    PoolSettings {
        name: pool.name.unwrap_or(default.name),
        workers: pool.workers.unwrap_or(default.workers),
        queues: pool.queues.map_or(default.queues, |names| names.into_iter().map(QueueName::from).collect()),
        grace: pool.grace.unwrap_or(default.grace),
        boot_timeout: pool.boot_timeout.unwrap_or(default.boot_timeout),
        time_limit: pool.time_limit.or(default.time_limit),
        retry: Retry {
            retries: pool.retries.unwrap_or(default.retry.retries),
            delay: pool.retry_delay.unwrap_or(default.retry.delay),
            cap: pool.retry_cap.unwrap_or(default.retry.cap),
        },
        ..default
    }
}

fn overrule(pool: &mut PoolSettings, flags: &Flags) {
    pool.workers = flags.workers.unwrap_or(pool.workers);
    pool.grace = flags.grace.unwrap_or(pool.grace);
    pool.boot_timeout = flags.boot_timeout.unwrap_or(pool.boot_timeout);
    pool.time_limit = flags.time_limit.or(pool.time_limit);
    pool.retry.retries = flags.retries.unwrap_or(pool.retry.retries);
    if !flags.queues.is_empty() {
        pool.queues = flags.queues.iter().map(|name| name.as_str().into()).collect();
    }
}

fn speaks_of_a_pool(flags: &Flags) -> bool {
    flags.workers.is_some()
        || flags.grace.is_some()
        || flags.boot_timeout.is_some()
        || flags.time_limit.is_some()
        || flags.retries.is_some()
        || !flags.queues.is_empty()
}

/// From the supervisor's last good renewal to the keeper's own kill, a third of the lease must pass at least.
const FENCE_MARGIN: Duration = Duration::from_secs(2);

fn check(settings: &Settings) -> Result<(), Error> {
    let wrong = |message: String| Err(Error::new(Fault::Config, message));
    if settings.pools.is_empty() {
        return wrong("there is no pool: nothing would run".into());
    }
    let mut names = std::collections::BTreeSet::new();
    for pool in &settings.pools {
        let name = &pool.name;
        if !names.insert(name) {
            return Err(Error::new(Fault::Config, format!("two pools are called '{name}'"))
                .hint("give each pool a name of its own"));
        }
        if pool.workers == 0 {
            return wrong(format!("pool '{name}' has no workers"));
        }
        if pool.queues.is_empty() || pool.queues.iter().any(|queue| queue.as_str().is_empty()) {
            return wrong(format!("pool '{name}' needs at least one queue, each with a name"));
        }
        if settings.lease.saturating_sub(pool.grace + FENCE_MARGIN) <= settings.lease / 3 {
            let least = format_duration((pool.grace + FENCE_MARGIN) * 2);
            let lease = format_duration(settings.lease);
            let grace = format_duration(pool.grace);
            return Err(Error::new(
                Fault::Config,
                format!("a lease of {lease} is too short for a grace of {grace} (pool '{name}')"),
            )
            .hint(format!("a job must be dead before its lease ends: set lease to {least} or more")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user() -> Surroundings {
        Surroundings { uid: 7, home: Some("/home/u".into()), ..Surroundings::default() }
    }

    fn with_file(text: &str, flags: Flags) -> Result<Config, Error> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("t.yaml");
        std::fs::write(&path, text).unwrap();
        resolve(Flags { config: Some(path), ..flags }, &user())
    }

    #[test]
    fn nothing_set_means_the_defaults() {
        let config = resolve(Flags::default(), &user()).unwrap();
        assert_eq!(config.broker.to_string(), "sqlite:/home/u/.local/state/taskvisor/store.db");
        assert_eq!(config.settings.pools, [PoolSettings::default()]);
        assert_eq!(config.settings.lease, Settings::default().lease);
    }

    #[test]
    fn a_flag_wins_over_the_file() {
        let flags = Flags { workers: Some(8), queues: vec!["b".into()], ..Flags::default() };
        let config = with_file("pools:\n- {workers: 2, queues: [a], grace: 3s}\n", flags).unwrap();
        let pool = &config.settings.pools[0];
        assert_eq!((pool.workers, pool.grace), (8, Duration::from_secs(3)));
        assert_eq!(pool.queues, ["b".into()]);
    }

    #[test]
    fn what_cannot_work_is_refused() {
        let flags = || Flags { workers: Some(8), ..Flags::default() };
        for (text, flags, words) in [
            ("pools:\n- {name: a}\n- {name: b}\n", flags(), "flags cannot say which"),
            ("pools:\n- {name: a}\n- {name: a}\n", Flags::default(), "two pools are called 'a'"),
            ("pools: []\n", Flags::default(), "there is no pool"),
            ("pools:\n- workers: 0\n", Flags::default(), "has no workers"),
            ("pools:\n- queues: []\n", Flags::default(), "at least one queue"),
            ("lease: 15s\n", Flags::default(), "too short for a grace of 10s"),
            ("broker: redis://:secret@q1/0\n", Flags::default(), "no broker speaks 'redis:'"),
            ("broker: memory\n", Flags::default(), "no URL"),
        ] {
            let error = with_file(text, flags).unwrap_err();
            assert!(error.to_string().contains(words), "{error}");
            assert!(!error.to_string().contains("secret"));
        }
    }

    #[test]
    fn the_example_file_holds_the_defaults() {
        let text = include_str!("../../conf/taskvisor.yaml");
        let file = File::parse(text, "conf/taskvisor.yaml").unwrap();
        let config = with_file(text, Flags::default()).unwrap();
        assert_eq!(config, resolve(Flags::default(), &user()).unwrap());
        // What depends on the user stands there as a comment; what does not is set. So nothing is missing.
        let whole = text.replace("\n#state_dir:", "\nstate_dir:").replace("\n#run_dir:", "\nrun_dir:");
        let whole = File::parse(&whole.replace("\n#broker:", "\nbroker:"), "conf/taskvisor.yaml").unwrap();
        assert!(whole.state_dir.is_some() && whole.run_dir.is_some() && whole.broker.is_some());
        assert!(file.lease.is_some() && file.stop_deadline.is_some());
        assert!(file.log.format.is_some() && file.log.level.is_some());
        let pool = &file.pools.unwrap()[0];
        assert!(
            pool.name.is_some() && pool.workers.is_some() && pool.queues.is_some() && pool.grace.is_some()
        );
        assert!(pool.boot_timeout.is_some() && pool.retries.is_some());
        assert!(
            pool.retry_delay.is_some() && pool.retry_cap.is_some() && text.contains("    time_limit: null")
        );
    }
}
