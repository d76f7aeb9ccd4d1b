//! The supervisor's process, which the keeper starts as `taskvisor supervisor …`.

use std::collections::BTreeMap;
use std::fs;
use std::fs::Permissions;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit, setrlimit};
use nix::sys::stat::{Mode, umask};
use tokio::runtime::Runtime;
use tracing::{error, warn};

use super::in_force;
use super::kept_at::refuse_gone_store;
use super::{doctor, lasting, locks, page::Page, run_files, seen::Seen, signals};
use api::{Changed, Gate, Members, Role, Terms};
use broker::{Broker, Error, Opening};
use config::{self, Api, Config, SocketGroup, Surroundings, private_dir};
use engine::{Ended, Fresh, ReadSettings, RunFiles, Setup, supervise};
use failure::{Failure, exit};
use keeper::{self, Sweeper, Swept};
use log::{self, OwnLog, Places, write_private};
use model::{Instance, PoolSettings, Settings, SpawnSpec, Work};
use process::on_top;
use spool::Desk;

/// How long to look for processes that outlived the keeper.
const SWEEP: Duration = Duration::from_secs(5);
/// How long a start runs code that is not needed later. Nothing depends on it: code that is unmapped too early is read
/// again from the file.
const START: Duration = Duration::from_secs(1);

/// How long the end waits for a reader of the log that has stopped reading.
pub const LAST_LINES: Duration = Duration::from_secs(1);

/// Serves until a stop is done or the keeper is gone. `typed` has the flag or variable of each setting that was typed.
pub fn serve(
    config: Config,
    typed: BTreeMap<String, String>,
    read_again: impl Fn() -> Result<Config, Failure> + Send + Sync + 'static,
) -> Result<ExitCode, Failure> {
    let keeper = keeper::inherited_socket().ok_or_else(|| {
        Failure::new(exit::USAGE, "'supervisor' is started by the keeper alone").hint("taskvisor start")
    })?;
    be_the_supervisor()?;
    // While this process has one thread.
    let keeper = on_top(keeper);
    let sweeper = sweeper();
    let log = log::start(&config.log).map_err(|error| Failure::from(error).of("failed to start the log"))?;
    let gate = config.api.as_ref().map(|api| Gate::new(terms(api)));
    let page = Page::of(&config);
    let (known, own_gate, own_page) = (config.clone(), gate.clone(), page.clone());
    let seen = Seen::new(&config, typed);
    let shown = seen.clone();
    let read_settings: ReadSettings = Arc::new(move || {
        fresh(
            &known,
            read_again().map_err(|failure| failure.in_a_line())?,
            own_gate.as_ref(),
            own_page.clone(),
            &seen,
        )
    });
    let ended = run(&config, keeper, sweeper, &log, (read_settings, shown), gate, page.as_ref());
    if let Err(failure) = &ended {
        let hint = failure.hint.as_deref();
        error!(hint, "the supervisor ends: {}", failure.in_a_line());
    }
    log.flush(LAST_LINES);
    match ended {
        Ok(Ended::Stopped) => Ok(ExitCode::from(exit::OK)),
        Ok(Ended::KeeperGone) => Ok(ExitCode::from(exit::SOFTWARE)),
        // The log on stderr has just shown this failure.
        Err(failure) if log::is_on_stderr(&config.log) => Ok(ExitCode::from(failure.code)),
        Err(failure) => Err(failure),
    }
}

/// Only the keeper gives stop orders: this process ignores signals, except KILL and STOP.
fn be_the_supervisor() -> io::Result<()> {
    keeper::Without::from_env().close_to_others();
    nix::sys::prctl::set_name(c"tv-supervisor")?;
    signals::ignore()?;
    // The store, the logs and the socket are of this user alone.
    umask(Mode::from_bits_truncate(0o077));
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    // Each slot takes three. Jobs have the limit that `start` found.
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard)?;
    // At the hard limit of CPU time the kernel kills: only root may raise it. The keeper makes the jobs, with its own.
    _ = setrlimit(Resource::RLIMIT_CPU, RLIM_INFINITY, RLIM_INFINITY);
    Ok(())
}

fn sweeper() -> Option<Sweeper> {
    let tag = std::env::var(keeper::TAG_FOR_SUPERVISOR).ok()?;
    Sweeper::new(nix::unistd::getppid().as_raw(), &tag)
}

/// The settings read again; refuses changes of what this process has already opened.
fn fresh(
    known: &Config,
    read: Config,
    gate: Option<&Gate>,
    page: Option<Page>,
    seen: &Seen,
) -> Result<Fresh, String> {
    match known.needs_restart(&read) {
        Some(key) => Err(format!("{key} is not what it was, and changes with a restart only")),
        None => {
            let kept = in_force::settings();
            let (now, shown, slots) = (seen.clone(), seen.shown(&read), read.slots());
            let changed = now.held().differences(&shown).into_iter();
            let changed =
                changed.map(|(pool, setting, from, to)| Changed { pool, setting, from, to }).collect();
            let (file, text) = read.file.map(|file| (file.name, file.text)).unzip();
            let gate = gate.cloned().zip(read.api.as_ref().map(terms));
            let keep = move || {
                now.replace(shown, slots);
                if let Some((gate, terms)) = gate {
                    gate.change(terms);
                }
                page.iter().for_each(Page::renew);
                let kept = kept.zip(text).map_or(Ok(()), |(kept, text)| kept.keep(&text));
                kept.map_err(|error| format!("failed to keep them in memory: {error}"))
            };
            Ok(Fresh { file, settings: read.settings, specs: read.specs, changed, keep: Box::new(keep) })
        }
    }
}

fn run(
    config: &Config,
    keeper: OwnedFd,
    sweeper: Option<Sweeper>,
    log: &OwnLog,
    (read_settings, seen): (ReadSettings, Seen),
    gate: Option<Gate>,
    page: Option<&Page>,
) -> Result<Ended, Failure> {
    keeper::give_back_large_blocks();
    let parent = nix::unistd::getppid();
    refuse_gone_store(config).map_err(Failure::unopened)?;
    let (listener, instance) = (listen(config)?, instance(&config.state_dir)?);
    let (broker, runtime) = (open_broker(config)?, runtime()?);
    runtime.block_on(admit(&broker, &instance, &config.state_dir))?;
    let outbox = runtime
        .block_on(config.open_outbox(&broker))
        .map_err(|error| Failure::unopened(error).of("failed to open the outbox"))?;
    // Its requests wait until the API is open.
    page.iter().try_for_each(|page| page.start(broker.complaints()))?;
    let (files, again, beside) = (config.clone(), config.clone(), config.clone());
    let complaints = broker.complaints().clone();
    let (changes, authors) = in_force::changes(config, broker.complaints());
    let left_paused = lasting::in_words(&authors.lasting(&changes));
    let setup = Setup {
        settings: Settings { changes, left_paused, ..config.settings.clone() },
        specs: config.specs.clone(),
        instance,
        broker: broker.clone(),
        broker_name: config.broker.to_string(),
        keeper,
        socket: config.socket(),
        sandboxes: config.state_dir.join("sandbox"),
        listener,
        run_files: RunFiles {
            bind: Box::new(move || listen(&again).map_err(|failure| failure.in_a_line())),
            put_back: Box::new(move || run_files::put_back(&beside, &complaints)),
        },
        state_dir: config.state_dir.clone(),
        members: config.socket_group.as_ref().map(members),
        port: config.api.as_ref().zip(gate).map(|(api, gate)| port(api, gate)).transpose()?,
        task_port: config.tasks.as_ref().and_then(|tasks| tasks.listen).map(task_port).transpose()?,
        log: log.clone(),
        outputs: config.log.clone(),
        places: Places {
            jobs: config::logs(&config.state_dir),
            job: Arc::new(move |job| files.log_file(job)),
        },
        read_settings,
        examine: doctor::examine(config, &seen, &broker),
        show_settings: Arc::new(move || seen.show()),
        authors,
        keep_changes: in_force::keep_changes(&config.state_dir, broker.complaints()),
        tasks: config.tasks.clone(),
        spool: spool(config, &broker),
        outbox,
        first_step: first_step(config),
        page: page.map(Page::seen),
    };
    let ended = runtime
        .block_on(supervise(setup))
        .map_err(|error| Failure::from(error).of("the supervisor failed".to_owned()));
    // Whatever the end: no one else ends the processes that a dead keeper has left.
    if matches!(ended, Ok(Ended::KeeperGone)) || nix::unistd::getppid() != parent {
        error!("the keeper has died: ending the processes that it left");
        sweeper.into_iter().for_each(|sweeper| tell(&sweeper.sweep(SWEEP)));
    }
    // The broker is kept until here, so that its last writes to the disk do not keep a process alive.
    drop(broker);
    // Clients that wait for an answer must not delay the end.
    runtime.shutdown_background();
    fs::remove_file(config.socket()).ok();
    ended
}

/// Unmaps the code that only the start needed.
async fn leave_start_behind() {
    tokio::time::sleep(START).await;
    keeper::unmap_code();
}

fn open_broker(config: &Config) -> Result<Arc<Broker>, Failure> {
    let (place, state_dir) = (place(&config.state_dir)?, config.state_dir.clone());
    let how = Opening { serves: true, place, state_dir, ..Opening::default() };
    let broker = Arc::new(config.open_broker(&how)?);
    run_files::put_back(config, broker.complaints());
    Ok(broker)
}

/// The most threads for what blocks, such as looking up a name.
const BLOCKING_THREADS: usize = 16;

/// Builds the runtime and starts one blocking thread that stays. Without any blocking thread, tokio panics if it cannot
/// start one; with one, it queues the work.
fn runtime() -> io::Result<Runtime> {
    // Fails with an error, not a panic, if no thread can be started now.
    let first = std::thread::Builder::new().name("threads".into()).spawn(|| ())?;
    _ = first.join();
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.max_blocking_threads(BLOCKING_THREADS).thread_keep_alive(Duration::MAX).enable_all();
    let runtime = builder.build()?;
    runtime.spawn_blocking(|| ());
    runtime.spawn(leave_start_behind());
    Ok(runtime)
}

/// The command by which a newcomer puts a first job; None if no pool runs programs.
fn first_step(config: &Config) -> Option<String> {
    let takes = |(_, spec): &(&PoolSettings, &SpawnSpec)| matches!(spec.work, Work::Programs);
    let (pool, _) = config.settings.pools.iter().zip(&config.specs).find(takes)?;
    let is_usual = config.run_dir == Surroundings::of_process().run_dir();
    let dir = if is_usual { String::new() } else { format!(" --run-dir {}", config.run_dir.display()) };
    let usual = PoolSettings::default().queues;
    let queue = pool.queues.first().filter(|queue| !usual.contains(queue));
    let queue = queue.map(|queue| format!(" -q {queue}")).unwrap_or_default();
    Some(format!("taskvisor{dir} put{queue} -- echo hello"))
}

fn tell(swept: &Swept) {
    for left in &swept.left {
        error!(pid = left.pid, "a process of a job may live on: {left}");
    }
    warn!(kills = swept.kills, left = swept.left.len(), "ended the processes that the keeper left");
}

/// Opens the API's socket. The supervisor that left a socket here is dead, as we hold the lock of its directory.
fn listen(config: &Config) -> Result<UnixListener, Failure> {
    let path = &config.socket();
    // The directory may have been swept away since the start.
    private_dir(&config.run_dir)?;
    locks::hold_again(config)?;
    fs::remove_file(path).ok();
    let failed =
        |error: io::Error| Failure::from(error).of(format!("failed to listen on {}", path.display()));
    let listener = UnixListener::bind(path).map_err(failed)?;
    // The directory is usually closed to others. The API also checks the user of each client.
    let opened = fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed).and_then(|()| {
        let Some(group) = &config.socket_group else { return Ok(()) };
        open_to(group, config).map_err(|error| {
            let what = format!("failed to open the socket {} to group '{}'", path.display(), group.name);
            let hint =
                "the supervisor's user must be root or a member of the group: SupplementaryGroups= in a unit";
            Failure::from(error).of(what).hint(hint)
        })
    });
    if opened.is_err() {
        // Clients would find a socket that does not let them in, and nobody would make it again.
        fs::remove_file(path).ok();
    }
    opened.map(|()| listener)
}

/// Opens the socket to members of the group: they may pass through its directory, but see nothing there.
fn open_to(group: &SocketGroup, config: &Config) -> io::Result<()> {
    let (path, dir) = (&config.socket(), &config.run_dir);
    chown(dir, None, Some(group.gid))?;
    fs::set_permissions(dir, Permissions::from_mode(0o710))?;
    chown(path, None, Some(group.gid))?;
    fs::set_permissions(path, Permissions::from_mode(0o660))
}

/// Opens the spool to the members of the group. Without it their puts fail while no supervisor runs; nothing else does.
fn spool(config: &Config, broker: &Broker) -> Option<Desk> {
    const SHUT: &str = "members of socket_group can leave no puts while no supervisor runs";
    let opened = Desk::open(&config.state_dir, config.socket_group.as_ref().map(|group| group.gid));
    opened.unwrap_or_else(|error| {
        let why = format!("cannot open {}: {error}", spool::dir_in(&config.state_dir).display());
        broker.complaints().stands(SHUT, &why, clock::now());
        None
    })
}

fn members(group: &SocketGroup) -> Members {
    Members { group: group.gid, groups_of: keeper::peer_groups }
}

/// Opens the TCP port for clients that know a token.
fn port(api: &Api, gate: Gate) -> Result<(TcpListener, bool, Gate), Failure> {
    Ok((bind(api.listen, "api.listen")?, api.allow_exec, gate))
}

/// Opens the TCP port for notifications, whose clients know no token: nobody but this machine reaches it.
fn task_port(listen: SocketAddr) -> Result<(TcpListener, bool, Gate), Failure> {
    let terms = Terms { tokens: None, hosts: Vec::new(), origins: Vec::new() };
    Ok((bind(listen, "wq.listen")?, false, Gate::of_tasks(terms)))
}

fn bind(listen: SocketAddr, setting: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(listen).map_err(|error| {
        Failure::new(exit::UNAVAILABLE, error.to_string())
            .of(format!("failed to listen on {listen}"))
            .hint(format!("is another supervisor, or another program, there? set {setting} to a free port"))
    })
}

/// The conditions for clients of the TCP port.
fn terms(api: &Api) -> Terms {
    let Api { tokens, hosts, origins, .. } = api.clone();
    let tokens = [(Role::All, tokens.all), (Role::View, tokens.view), (Role::Put, tokens.put)];
    let tokens = tokens.into_iter().filter_map(|(role, token)| Some((role, token?.0))).collect();
    Terms { tokens: Some(tokens), hosts, origins }
}

/// Identifies the place of the state directory: a copy of it is elsewhere, on this machine or another.
fn place(state_dir: &Path) -> Result<String, Failure> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let dir = fs::metadata(state_dir)
        .map_err(|error| Failure::from(error).of(format!("failed to look at {}", state_dir.display())))?;
    Ok(format!("{}:{}:{}", boot.trim(), dir.dev(), dir.ino()))
}

/// Checks that no other supervisor uses this name. If the broker is away, the check happens before the name is used.
async fn admit(broker: &Arc<Broker>, instance: &Instance, state_dir: &Path) -> Result<(), Failure> {
    let Err(error @ Error::Refused(_)) = broker.admit(instance).await else { return Ok(()) };
    let path = state_dir.join("instance");
    let hint = format!(
        "is {} a copy of its state directory? then remove {}, so that this one has a name of its own; if that supervisor is \
         dead, and this one takes its place, start it again after 20 s",
        state_dir.display(),
        path.display()
    );
    Err(Failure::unopened(error).of("failed to take the place of the last supervisor").hint(hint))
}

/// The name under which this state directory holds leases; made once.
fn instance(state_dir: &Path) -> Result<Instance, Failure> {
    let path = state_dir.join("instance");
    match fs::read_to_string(&path) {
        Ok(name) if !name.trim().is_empty() => return Ok(name.trim().into()),
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(Failure::from(error).of(format!("failed to read {}", path.display()))),
    }
    let name = uuid::Uuid::now_v7().simple().to_string();
    write_private(&path, format!("{name}\n"))
        .map_err(|error| Failure::from(error).of(format!("failed to write {}", path.display())))?;
    Ok(name.into())
}
