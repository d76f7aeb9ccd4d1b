//! All that the keeper knows. Each file that acts on it has an `impl Keeper` of its own.

use std::collections::{BTreeMap, HashMap};
use std::os::fd::OwnedFd;

use super::cgroup::Cgroups;
use super::children::Children;
use super::crashes::Crashes;
use super::launch::Launch;
use super::life::Life;
use super::notify::Notify;
use super::oom::OomScore;
use super::parked::Origin;
use super::phase::Phase;
use super::report_queue::ReportQueue;
use super::setup::Setup;
use super::spawner_process::Spawner;
use super::strangers::Strangers;
use super::strays::Strays;
use super::template::Templates;
use super::turn::Sources;
use super::watchdog::Watchdog;
use model::{Follow, Instant, WorkerId};
use wire::keeper::Ask;

pub(super) struct Keeper {
    pub setup: Setup,
    pub sources: Sources,
    pub children: Children,
    pub cgroups: Option<Cgroups>,
    pub origin: Origin,
    pub oom_score: OomScore,
    pub notify: Notify,
    pub launch: Launch,
    /// Its own line of /proc, open: /proc may hide a keeper from its supervisor (`hidepid`), but not what is open.
    pub stat: Option<OwnedFd>,
    /// Every life that the supervisor has not had forgotten.
    pub lives: BTreeMap<WorkerId, Life>,
    /// The leaders that are not reaped, by pid.
    pub leaders: HashMap<i32, WorkerId>,
    /// The lives whose leader is reaped and whose tree is not proven dead.
    pub ended: Vec<WorkerId>,
    /// The lives to be made next, after one that is proven dead, and whether they begin without a process.
    pub followers: Vec<(WorkerId, Follow, bool)>,
    pub spawner: Spawner,
    /// Number of leaders reaped so far.
    pub endings: u64,
    /// Children that belong to dead leaders.
    pub strays: Strays,
    /// Children that belong to no life.
    pub strangers: Strangers,
    /// Since when the keeper has found strays without a number; None if the last look found none.
    pub unnumbered_since: Option<Instant>,
    /// Whether a leader was killed and has not ended.
    pub undead: bool,
    pub templates: Templates,
    pub supervisor: Option<Supervisor>,
    /// The session of the latest supervisor, perhaps dead. No life can have started what is in it.
    pub supervisors_session: Option<i32>,
    pub crashes: Crashes,
    pub phase: Phase,
    /// The order to end, kept because a supervisor may die before it has followed it.
    pub ending: Option<Ask>,
    pub reports: ReportQueue,
    pub watchdog: Watchdog,
    /// The highest generation spawned.
    pub generation: u32,
}

/// The supervisor's process.
pub(super) struct Supervisor {
    pub pid: i32,
    pub socket: OwnedFd,
    /// Whether its end of the socket is open, as far as the keeper knows.
    pub open: bool,
    /// Whether the supervisor ever sent an order.
    pub spoke: bool,
    /// When the supervisor is killed if it has not ended.
    pub kill_at: Option<Instant>,
    /// By when the supervisor must have read an order to stop.
    pub stop_by: Option<Instant>,
    /// Whether the keeper has killed it.
    pub killed: bool,
    /// How many processes the kernel had killed for want of memory when it began.
    pub oom_kills: Option<u64>,
}
