//! `start --check`: really starts a supervisor for a moment, with the settings given and a store in memory.
//!
//! The trial is a `start` of its own with one worker for each pool. It has directories of its own, and takes no job of
//! anybody: it finds what only the kernel and the application can say.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::term::screen::{escaped, print};
use api::Client;
use config::Config;
use failure::{Failure, exit};
use model::{
    Exec, Instant, LogSettings, NewJob, Payload, PoolStatus, QueueName, SlotState, SlotStatus, Work,
};

/// Variable with the directory of a trial, for its `start` and all children of it.
const VARIABLE: &str = "TASKVISOR_TRIAL";
/// Time for all but the start of the workers.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long a program may take to begin once all workers are there. Nobody may be allowed to run programs.
const PROGRAM: Duration = Duration::from_secs(5);
/// Pause between two looks.
const LOOK: Duration = Duration::from_millis(50);

/// In a trial: the same settings, in its own place.
pub(super) fn adapt(mut config: Config) -> Config {
    let Some(dir) = env::var_os(VARIABLE).map(PathBuf::from) else { return config };
    (config.state_dir, config.run_dir) = (state(&dir), run(&dir));
    if let Ok(memory) = brokers::address("memory:") {
        (config.broker, config.broker_is_named) = (memory, true);
    }
    config.log = LogSettings { level: config.log.level, ..LogSettings::default() };
    // A trial must not reach other stores, nor listen where the service does.
    (config.routes, config.api, config.tasks, config.socket_group) = (Vec::new(), None, None, None);
    let settings = &mut config.settings;
    // A burst without jobs would end before its workers are ready.
    (settings.burst, settings.end_after, settings.end_when_idle) = (false, None, None);
    for pool in &mut settings.pools {
        (pool.workers, pool.min_workers) = (1, None);
        pool.sizes.clear();
    }
    config
}

fn state(dir: &Path) -> PathBuf {
    dir.join("state")
}

fn run(dir: &Path) -> PathBuf {
    dir.join("run")
}

/// The directory of a trial; it is removed at the end.
struct Place(PathBuf);

impl Place {
    fn new() -> Result<Place, Failure> {
        let dir = env::temp_dir().join(format!("taskvisor-trial-{}", std::process::id()));
        // It must be new: in a directory that all may write to, somebody else may have made one of this name.
        DirBuilder::new().mode(0o700).create(&dir).map_err(|error| {
            Failure::from(error).of(format!("failed to make {} for the trial", dir.display()))
        })?;
        Ok(Place(dir))
    }

    fn log(&self) -> String {
        fs::read_to_string(self.0.join("log")).unwrap_or_default()
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// Tries to start with these settings, and prints what became of each pool.
pub(super) fn trial(config: &Config) -> Result<ExitCode, Failure> {
    boot::can_run()?;
    let place = Place::new()?;
    let mut child = begin(&place)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let found = runtime.block_on(watch(config, &place, &mut child));
    end(&mut child);
    let found = found?;
    let is_well = found.iter().all(|(_, trouble)| trouble.is_none());
    let line = |(pool, trouble): &(String, Option<String>)| match trouble {
        None => format!("ok    pool {pool}\n"),
        Some(why) => format!("BAD   pool {pool}: {}\n", escaped(why)),
    };
    print(&found.iter().map(line).collect::<String>())?;
    Ok(ExitCode::from(if is_well { exit::OK } else { exit::FAILED }))
}

fn begin(place: &Place) -> Result<Child, Failure> {
    let log = OpenOptions::new().write(true).create_new(true).mode(0o600).open(place.0.join("log"))?;
    // Only our own --check is taken out: behind `--` it is a word like any other.
    let mut is_ours = true;
    let arguments = env::args_os().skip(1).filter(move |argument| {
        is_ours &= argument != "--";
        !is_ours || argument != "--check"
    });
    // This very program, also if its file has been replaced by now.
    let mut command = Command::new("/proc/self/exe");
    // systemd must not take the trial for the service.
    command.args(arguments).env(VARIABLE, &place.0).env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
    command.spawn().map_err(|error| Failure::from(error).of("failed to begin the trial"))
}

/// Ends the trial, which is the keeper's process.
fn end(child: &mut Child) {
    let pid = Pid::from_raw(child.id() as i32);
    // The second one has workers that boot get TERM at once. Two without a pause would arrive as one.
    for patience in [LOOK, PATIENCE] {
        _ = kill(pid, Signal::SIGINT);
        if ends_within(child, patience) {
            break;
        }
    }
    // It may have ended by now, or it hangs: in both cases it is reaped below.
    _ = child.kill();
    _ = child.wait();
}

/// Waits until a child has ended, for `patience` at most. Gives whether it has; it is not reaped.
fn ends_within(child: &Child, patience: Duration) -> bool {
    let pid = rustix::process::Pid::from_child(child);
    // A pidfd can be waited for with a time limit, and reaps nothing.
    let Ok(ended) = rustix::process::pidfd_open(pid, rustix::process::PidfdFlags::empty()) else {
        return false;
    };
    let timeout = PollTimeout::try_from(patience).unwrap_or(PollTimeout::MAX);
    poll(&mut [PollFd::new(ended.as_fd(), PollFlags::POLLIN)], timeout).is_ok_and(|ready| ready > 0)
}

/// Waits until each pool has a worker, or is known to get none. Gives the trouble of each.
async fn watch(
    config: &Config,
    place: &Place,
    child: &mut Child,
) -> Result<Vec<(String, Option<String>)>, Failure> {
    // The slowest pool decides: all boot at the same time.
    let boot = config.settings.pools.iter().map(|pool| pool.boot_timeout).max().unwrap_or_default();
    let until = clock::now() + boot + PATIENCE;
    let client = Client::new(run(&place.0).join("ctl.sock"));
    let mut programs: Option<Instant> = None;
    loop {
        if let Some(status) = child.try_wait()? {
            return Err(ended(place, status));
        }
        if let Ok(status) = client.status().await {
            let found: Vec<_> = status.pools.iter().map(|pool| (pool.name.clone(), state_of(pool))).collect();
            let decided = found.iter().all(|(_, state)| !matches!(state, State::Begins));
            if decided && programs.is_none() {
                put_programs(config, &client).await;
                programs = Some(clock::now() + PROGRAM);
            }
            let runs =
                status.queues.values().flat_map(|queue| &queue.jobs).any(|(state, _)| !state.has_ended());
            // Where one pool fails, its programs would be waited for in vain.
            let fails = found.iter().any(|(_, state)| matches!(state, State::Fails(_)));
            let rests = programs.is_some_and(|until| fails || !runs || clock::now() >= until);
            if decided && rests {
                return Ok(found.into_iter().map(|(pool, state)| (pool, state.trouble())).collect());
            }
        }
        if clock::now() >= until {
            let what = format!("the trial did not get ready in {} s", (boot + PATIENCE).as_secs());
            return Err(Failure::new(exit::TIMED_OUT, what).hint(last_lines(&place.log())));
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// A program that does nothing, for each pool that runs programs: so its user, limits and sandbox are tried.
async fn put_programs(config: &Config, client: &Client) {
    let pools = config.settings.pools.iter().zip(&config.specs);
    let of_programs = pools.filter(|(_, spec)| spec.work == Work::Programs);
    let queues: Vec<&QueueName> = of_programs.filter_map(|(pool, _)| pool.queues.first()).collect();
    for queue in queues {
        let exec = Exec { argv: vec!["true".into()], cwd: "/".into(), umask: 0o77, ..Exec::default() };
        _ = client.put(vec![NewJob::new(queue.clone(), "exec".into(), Payload::Exec(exec))]).await;
    }
}

enum State {
    Begins,
    Ready,
    Fails(String),
}

impl State {
    fn trouble(self) -> Option<String> {
        match self {
            State::Begins | State::Ready => None,
            State::Fails(why) => Some(why),
        }
    }
}

fn state_of(pool: &PoolStatus) -> State {
    let all = || pool.template.iter().chain(&pool.slots);
    let fails = |slot: &&SlotStatus| slot.failing;
    if let Some(slot) = all().find(fails) {
        let trace = slot.trace.as_ref().map(|trace| format!(": {}", trace.trim())).unwrap_or_default();
        return State::Fails(format!(
            "{}{trace}",
            slot.why.as_deref().unwrap_or("its worker does not start")
        ));
    }
    match pool.slots.iter().any(|slot| matches!(slot.state, SlotState::Ready | SlotState::Busy)) {
        true => State::Ready,
        false => State::Begins,
    }
}

/// The `start` of the trial has ended by itself: it says why.
fn ended(place: &Place, status: ExitStatus) -> Failure {
    let code = status.code().and_then(|code| u8::try_from(code).ok()).filter(|code| *code != exit::OK);
    Failure::new(code.unwrap_or(exit::FAILED), last_lines(&place.log()))
        .of("start does not come up with these settings")
}

fn last_lines(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(5)..].join("; ")
}
