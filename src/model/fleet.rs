//! The supervisors that share a broker: the presence that each publishes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{Now, SeenAt, StartedAt};
use super::{Class, Instance, Instant, JobId, Millis, PoolStatus, QueueName, SlotState, Stop};

/// A supervisor's presence, which it publishes to all that share its broker.
#[derive(Clone, Debug, PartialEq)]
pub struct Presence {
    /// The holder of its leases.
    pub instance: Instance,
    /// When it started, by this host's time since boot.
    pub started: Instant,
    /// The stage of its stop, if one was ordered.
    pub stopping: Option<Stop>,
    /// The pools of the supervisor, as counts.
    pub pools: Vec<PoolSign>,
}

impl Presence {
    /// The same without the figures that change with every job.
    pub fn shape(&self) -> Presence {
        let pools = self.pools.iter().map(|pool| PoolSign { ready: 0, busy: 0, ..pool.clone() });
        Presence { pools: pools.collect(), ..self.clone() }
    }
}

/// A pool in numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PoolSign {
    /// The pool's name.
    pub name: String,
    /// `fork`, `prefork` or `coroutine`.
    pub mode: String,
    /// Where its jobs come from, in order.
    pub queues: Vec<QueueName>,
    /// Whether it takes no jobs for now.
    #[serde(default)]
    pub paused: bool,
    /// Number of its slots.
    pub slots: usize,
    /// Number of slots that could take a job.
    pub ready: usize,
    /// Number of slots that run all they can.
    pub busy: usize,
    /// The classes that its workers know; empty = they have not said, it has programs, or there are 100 or more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Class>,
}

impl PoolSign {
    /// The counts of a pool.
    pub fn of(pool: &PoolStatus) -> PoolSign {
        let count = |state| pool.slots.iter().filter(|slot| slot.state == state).count();
        PoolSign {
            name: pool.name.clone(),
            mode: pool.mode.clone(),
            queues: pool.queues.clone(),
            paused: pool.paused,
            slots: pool.slots.len(),
            ready: count(SlotState::Ready),
            busy: count(SlotState::Busy),
            classes: Vec::new(),
        }
    }
}

/// All supervisors that have given a sign of life, and have neither stopped nor been silent for a day.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Fleet {
    /// Schema of this document, always `taskvisor.fleet/1`.
    pub schema: String,
    /// The time of the broker, by which all others here are.
    #[serde(flatten, with = "Now::<Millis>")]
    pub now: Millis,
    /// They, by host.
    pub supervisors: Vec<Member>,
}

impl Fleet {
    /// The schema this code writes.
    pub const SCHEMA: &'static str = "taskvisor.fleet/1";
}

/// A supervisor of the fleet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Member {
    /// Whose leases it holds: one state directory.
    pub instance: String,
    /// Name of its host.
    pub host: String,
    /// The program's version.
    pub version: String,
    /// When it started.
    #[serde(flatten, with = "StartedAt::<Option<Millis>>")]
    pub since: Option<Millis>,
    /// Stage of its stop, once ordered.
    pub stopping: Option<Stop>,
    /// Its pools, as of its last sign of life.
    pub pools: Vec<PoolSign>,
    /// When that sign of life was given.
    #[serde(flatten, with = "SeenAt::<Option<Millis>>")]
    pub seen: Option<Millis>,
    /// Whether another was due since: it hangs, it is dead, or it does not reach the broker.
    pub silent: bool,
    /// Number of jobs whose leases it holds.
    pub running: u64,
    /// Which, if that was asked: 100 at most, the oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub jobs: Vec<MemberJob>,
}

impl Member {
    /// Whether the supervisor lives and takes jobs from a queue.
    pub fn takes(&self, queue: &QueueName) -> bool {
        self.is_taking() && self.pools.iter().any(|pool| pool.queues.contains(queue))
    }

    /// The classes that the workers of a queue know, if all pools that take from it have said theirs, and `class` is none
    /// of them.
    pub fn known_instead(all: &[Member], queue: &QueueName, class: &Class) -> Option<Vec<Class>> {
        let mut known = Vec::new();
        let takers = all.iter().filter(|member| member.is_taking());
        for pool in takers.flat_map(|member| &member.pools).filter(|pool| pool.queues.contains(queue)) {
            if pool.classes.is_empty() || pool.classes.contains(class) {
                return None;
            }
            known.extend(pool.classes.iter().cloned());
        }
        Some(known).filter(|known| !known.is_empty())
    }

    fn is_taking(&self) -> bool {
        !self.silent && self.stopping.is_none()
    }
}

/// A job that runs somewhere.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MemberJob {
    /// The job's id.
    pub id: JobId,
    /// The class of the job.
    pub class: Class,
    /// Since when it runs.
    #[serde(flatten, with = "StartedAt::<Option<Millis>>")]
    pub since: Option<Millis>,
}
