//! What the rules remember of the events and commands so far.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use model::{Classes, Fence, Instant, JobId, Revocation, SlotId, WorkerId};

/// The observed facts that the rules are checked against.
#[derive(Default)]
pub struct Checks {
    pub stopped: bool,
    pub exited: bool,
    pub termed: BTreeSet<WorkerId>,
    pub killed: BTreeSet<WorkerId>,
    pub ready: BTreeSet<WorkerId>,
    /// Lives whose end was not yet reported to the supervisor.
    pub known: BTreeSet<WorkerId>,
    /// Leases under which a job ran again because its coroutine worker died.
    pub again: BTreeSet<(JobId, Fence)>,
    /// The worker of each lease.
    pub assigned: BTreeMap<(JobId, Fence), WorkerId>,
    /// The largest size that any pool had.
    pub most: u16,
    /// The classes of each pool, as far as reported to the supervisor.
    pub knows: BTreeMap<u16, Option<Arc<Classes>>>,
    pub asking: BTreeSet<u16>,
    /// Number of times each pool was told that jobs wait.
    pub grown: BTreeMap<u16, usize>,
    pub stuck: BTreeSet<WorkerId>,
    /// The time of the last event of a lease: grant, renewal request or answer.
    pub asked: BTreeMap<(JobId, Fence), Instant>,
    /// The kinds of commands that the supervisor has issued.
    pub seen: BTreeSet<String>,
    /// Workers that died by themselves while they ran jobs.
    pub deaths: u64,
    /// Lost leases with the reason; below, until when their worker may live.
    pub revoked: BTreeMap<(JobId, Fence), Revocation>,
    pub doomed: BTreeMap<(WorkerId, JobId), Instant>,
    pub settled: BTreeSet<(JobId, Fence)>,
    pub telling: BTreeSet<(JobId, Fence)>,
    /// Verdicts that the broker has not confirmed.
    pub untold: BTreeSet<(JobId, Fence)>,
    pub fetching: BTreeSet<u16>,
    /// When each job was last fetched; below, when it last began.
    pub given: BTreeMap<JobId, Instant>,
    pub begun: BTreeMap<JobId, Instant>,
    /// Latest expiry known of each lease.
    pub leases: BTreeMap<(JobId, Fence), Instant>,
    /// The starts of each slot.
    pub starts: BTreeMap<SlotId, VecDeque<Instant>>,
    /// Jobs of which a worker said that they were never begun: no process of theirs was ever there.
    pub unbegun: BTreeSet<(JobId, Fence)>,
    /// Outcomes that workers sent before the supervisor ended the job.
    pub ended: BTreeSet<(JobId, Fence)>,
    pub turns: u64,
    pub hung: bool,
}
