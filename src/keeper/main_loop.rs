//! The keeper's one loop.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::abilities::adopt_orphans;
use super::cgroup::Cgroups;
use super::children::Children;
use super::crashes::Crashes;
use super::fence::STOPPED;
use super::launch::{Launch, fill_standard_descriptors};
use super::life::Life;
use super::notify::Notify;
use super::oom::OomScore;
use super::parked::Origin;
use super::phase::Phase;
use super::report_queue::ReportQueue;
use super::say::{say, say_lost};
use super::setup::Setup;
use super::spawner_process::Spawner;
use super::state::Keeper;
use super::strangers::Strangers;
use super::strays::Strays;
use super::template::Templates;
use super::traces::Traces;
use super::turn::{Interest, Sources};
use super::unmap::unmap_code;
use super::watchdog::{Watchdog, fed_within};
use super::{EXIT_NO_PROOF, EXIT_SYSTEM, priority, sys};
use model::{Instant, WorkerId};

/// Becomes the keeper. Returns when the supervisor is done and no process lives any more. This process must have one
/// thread.
pub fn run(setup: Setup) -> ExitCode {
    // By default a panic waits for whoever reads stderr, and all jobs with it, neither watched nor ended.
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("of an unknown kind");
        say(format_args!("panicked at {place}: {why}"));
    }));
    match Keeper::new(setup) {
        Ok(keeper) => ExitCode::from(keeper.serve()),
        Err(error) => {
            say(format_args!("failed to start: {error}"));
            ExitCode::from(if error.is::<NoProof>() { EXIT_NO_PROOF } else { EXIT_SYSTEM })
        }
    }
}

/// The keeper cannot prove deaths on this host: processes of a job could live on unseen.
#[derive(Debug)]
struct NoProof;

impl std::error::Error for NoProof {}

impl std::fmt::Display for NoProof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(
            "without cgroups and without subreapers nothing proves that a job's processes have ended; \
             remove subreaper from TASKVISOR_WITHOUT, or give the service a cgroup (see: taskvisor doctor)",
        )
    }
}

impl Keeper {
    fn new(setup: Setup) -> Result<Self, Box<dyn std::error::Error>> {
        let ends_with_terminal = !sys::ignores(libc::SIGHUP);
        sys::default_signals();
        let null = fill_standard_descriptors()?;
        let oom_score = OomScore::open(setup.memory);
        setup.without.close_to_others();
        _ = nix::sys::prctl::set_name(c"taskvisor");
        let subreaper = adopt_orphans(setup.without)?;
        let nofile = raise_nofile();
        Traces::of_this_process()?;
        let cgroups = Cgroups::find(setup.without).ok();
        if cgroups.is_none() && !subreaper {
            return Err(NoProof.into());
        }
        let origin =
            Origin { keeper: std::process::id() as i32, null, subreaper, nofile, nice: priority::raise() };
        let notify = Notify::new(std::env::var_os("NOTIFY_SOCKET"));
        let fed_within = fed_within().filter(|_| notify.is_heard());
        let now = clock::now();
        let mut keeper = Keeper {
            launch: Launch::new(&setup)?,
            stat: std::fs::File::open("/proc/self/stat").ok().map(OwnedFd::from),
            notify,
            sources: Sources::open(ends_with_terminal)?,
            children: Children::open()?,
            crashes: Crashes::new(setup.restarts),
            watchdog: Watchdog::new(setup.silence, fed_within, now),
            setup,
            cgroups,
            origin,
            oom_score,
            lives: BTreeMap::new(),
            leaders: HashMap::new(),
            ended: Vec::new(),
            followers: Vec::new(),
            spawner: Spawner::default(),
            endings: 0,
            strays: Strays::default(),
            strangers: Strangers::new(),
            unnumbered_since: None,
            undead: false,
            templates: Templates::default(),
            supervisor: None,
            supervisors_session: None,
            phase: Phase::Serving,
            ending: None,
            reports: ReportQueue::default(),
            generation: 0,
        };
        keeper.start_supervisor(now)?;
        keeper.sources.wake_by(keeper.watchdog.due());
        Ok(keeper)
    }

    fn serve(mut self) -> u8 {
        unmap_code();
        loop {
            let socket = self.supervisor.as_ref().filter(|supervisor| supervisor.open);
            let ready = self.sources.wait(&Interest {
                socket: socket.map(|supervisor| supervisor.socket.as_fd()),
                read: self.reports.has_room(),
                write: self.reports.is_blocked(),
                forks: self.templates.sockets(),
            });
            let now = clock::now();
            if ready.late >= STOPPED {
                self.stood_still(now, ready.late);
            }
            ready.asks.iter().for_each(|ask| self.asked(now, *ask));
            if ready.readable {
                self.take_orders(now);
            }
            if ready.born {
                self.hear(now);
            }
            if ready.deaths || ready.timer {
                self.reap(now, ready.died);
            }
            if ready.timer {
                self.keep_deadlines(now);
            }
            if ready.deaths || ready.timer || !self.ended.is_empty() || self.templates.in_doubt {
                self.prove(now, ready.timer);
            }
            if ready.writable {
                self.reports.unblock();
            }
            if let Some(code) = self.go_on(now) {
                return code;
            }
            self.say(now);
            say_lost();
        }
    }

    /// Does all that is due. The timer fires for the earliest deadline only, so it is set again each time.
    fn keep_deadlines(&mut self, now: Instant) {
        let fenced = |life: &Life| {
            (life.leader().is_some() || life.is_to_end()) && life.fence.is_some_and(|fence| fence.is_due(now))
        };
        let due: Vec<WorkerId> =
            self.lives.values().filter(|life| fenced(life)).map(|life| life.worker).collect();
        for worker in due {
            self.kill_life(worker, now);
        }
        self.strike_again(now);
        self.watch_spawner(now);
        self.watch(now);
        self.keep_supervisors_deadlines(now);
        self.reports.unblock();
        let lives = self.lives.values().filter_map(|life| life.deadline(now)).min();
        for at in [lives, self.supervisors_deadline(), Some(self.watchdog.due())].into_iter().flatten() {
            self.sources.wake_by(at);
        }
    }
}

/// Raises the limit on descriptors, as the keeper holds three for each child. Gives the limits that children get back.
fn raise_nofile() -> Option<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    (soft < hard && setrlimit(Resource::RLIMIT_NOFILE, hard, hard).is_ok()).then_some((soft, hard))
}
