//! `start`: makes all checks before anything runs.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use nix::fcntl::Flock;
use nix::sys::resource::{Resource, getrlimit};

use super::kept_at::{self, refuse_gone_store};
use super::launch::launch;
use super::locks::{Locks, in_run_lock, lock_both, run_lock, sign, state_lock};
use super::noted;
use config::{Config, keep_users_out, private_dir};
use failure::{Failure, exit};
use keeper::{Left, Sweeper, Traces, essentials, try_user};
use model::Identity;
use sqlite::Sqlite;

/// Makes the directories, takes the locks, and launches.
pub fn start(config: Config, new_store: bool) -> Result<ExitCode, Failure> {
    can_run()?;
    let (_, descriptors) = getrlimit(Resource::RLIMIT_NOFILE).map_err(io::Error::from)?;
    enough(descriptors)?;
    can_have_users(&config)?;
    // Before a directory is made: the user is asked to move the old one back to this place.
    if !new_store {
        refuse_gone_store(&config).map_err(Failure::unopened)?;
    }
    keep_users_out(&config)?;
    if let Some(dir) = &config.log.dir {
        private_dir(dir)?;
    }
    log::check(&config.log).map_err(|(path, error)| unwritable(&path, error))?;
    let Locks { mut run, mut state, dirs } = lock_both(&config)?;
    if new_store {
        begin_new_store(&config)?;
    }
    end_what_is_left(&mut state, &config.state_dir)?;
    // This same process will be the keeper.
    let own = Traces::of_this_process()?.to_string();
    sign(&mut run, &run_lock(&config), &in_run_lock(&config))?;
    sign(&mut state, &state_lock(&config), &own)?;
    // Before it is the keeper: a command meets no keeper without a note. What fails now is tried again, and told, later.
    noted::note(&config).ok();
    if let Some((what, hint)) = noted::unread(&config) {
        eprintln!("note: {what}\nhint: {hint}");
    }
    Err(launch(&config, &Locks { run, state, dirs }))
}

/// Whether this machine has what keeper and supervisor cannot do without.
pub fn can_run() -> Result<(), Failure> {
    essentials().map_err(|missing| {
        let code = if missing.is_refused() { exit::PERMISSION } else { exit::IO };
        Failure::new(code, missing.to_string())
            .of("neither keeper nor supervisor can run here")
            .hint(missing.remedy)
    })
}

/// Whether the processes of all pools can be started as their users, and ended.
fn can_have_users(config: &Config) -> Result<(), Failure> {
    let mut tried: Vec<&Identity> = Vec::new();
    for (pool, spec) in config.settings.pools.iter().zip(&config.specs) {
        let Some(user) = spec.identity.as_ref().filter(|user| !tried.contains(user)) else { continue };
        try_user(user).map_err(|refused| {
            Failure::new(exit::PERMISSION, refused.to_string())
                .of(format!("pool '{}' cannot run as user '{}' here", pool.name, user.name))
                .hint(
                    "see what confines taskvisor: capabilities (CAP_SETUID, CAP_SETGID, CAP_KILL), a user namespace, or the \
                     profile of a security module in the kernel's log; or leave user out",
                )
        })?;
        tried.push(user);
    }
    Ok(())
}

/// Makes a new store. Only this process does so: a supervisor that the keeper starts again finds the new store.
fn begin_new_store(config: &Config) -> Result<(), Failure> {
    match config.broker.file() {
        Some(path) => {
            Sqlite::replace_with_new(path).map_err(Failure::unopened)?;
            Ok(kept_at::forget(config)?)
        }
        None => {
            let what = format!("--new-store begins a new file of jobs, and the broker is {}", config.broker);
            Err(Failure::new(exit::USAGE, what).hint("leave it away"))
        }
    }
}

/// With fewer descriptors than one worker needs, a supervisor could not even report what is missing.
fn enough(descriptors: u64) -> Result<(), Failure> {
    let (first, each) = config::DESCRIPTORS;
    if descriptors >= first {
        return Ok(());
    }
    let what = format!(
        "a supervisor needs {first} descriptors, and {each} more for each further worker; the limit is {descriptors}"
    );
    Err(Failure::new(exit::IO, what).hint("raise it: ulimit -Hn, or LimitNOFILE= in the unit"))
}

fn unwritable(path: &Path, error: io::Error) -> Failure {
    Failure::from(error)
        .of(format!("failed to open the log {}", path.display()))
        .hint("log.dir and log.format in the file say where the log goes; without them it goes to stderr")
}

/// If keeper and supervisor died together, the processes of their jobs may live: kills them before these jobs run
/// again. Kills nothing while that keeper lives.
fn end_what_is_left(state: &mut Flock<File>, dir: &Path) -> Result<(), Failure> {
    let mut signed = String::new();
    state.read_to_string(&mut signed)?;
    let traces = signed.split_once('\n').and_then(|(_, traces)| Traces::parse(traces));
    let Some(traces) = traces.filter(Traces::are_of_this_boot) else { return Ok(()) };
    if traces.keeper_lives() {
        return Err(is_a_copy(dir, traces.pid));
    }
    let swept = Sweeper::of_traces(traces).sweep(SWEEP);
    if swept.left.is_empty() { Ok(()) } else { Err(lives_on(&swept.left, dir)) }
}

fn is_a_copy(dir: &Path, keeper: i32) -> Failure {
    let what = format!(
        "{} is a copy of the state directory of a supervisor that runs (keeper {keeper}); nothing was started or killed",
        dir.display()
    );
    Failure::new(exit::UNAVAILABLE, what).hint(format!(
        "start on the directory that it was copied from; for a supervisor of its own on this copy, which would run the jobs in \
         it a second time, remove {0}/lock and {0}/instance",
        dir.display()
    ))
}

/// Limit of the processes that are named.
const NAMED: usize = 8;

fn lives_on(left: &[Left], dir: &Path) -> Failure {
    let mut names: Vec<String> = left.iter().take(NAMED).map(Left::to_string).collect();
    if left.len() > NAMED {
        names.push(format!("and {} more", left.len() - NAMED));
    }
    let what = format!(
        "processes that the last supervisor's jobs have left may live on, and would meet their jobs when these run again: {}",
        names.join("; ")
    );
    Failure::new(exit::UNAVAILABLE, what).hint(format!(
        "end them and start again; if none of them is of a job: remove {}",
        dir.join("lock").display()
    ))
}

/// How long to look for those processes.
const SWEEP: Duration = Duration::from_secs(5);
