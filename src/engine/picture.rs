//! Looks at what a job runs, for somebody who asks. A thread of its own reads /proc, as a read may never return where the
//! kernel has locked a process. Nothing that a job has made is opened, no memory and no environment, but for the file in
//! which a library of ours answers.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use api::Problem;
use model::{Instance, JobId, JobRecord, Millis, Picture, PoolStatus, SlotStatus, Snapshot, WorkerName};
use process::{snapshot, usage};

/// How long somebody waits for a picture.
const PATIENCE: Duration = Duration::from_secs(2);
/// Limit of the pictures that are taken at once; one of a locked process may never be done.
const LOOKS: usize = 8;

/// Takes pictures of jobs.
#[derive(Clone, Debug, Default)]
pub(super) struct Pictures {
    /// Each one that is being taken holds a reference.
    under_way: Arc<()>,
}

/// The processes, and users of theirs that are not the supervisor's.
type Seen = (Snapshot, Vec<u32>);

/// The worker of a job, and its leader.
struct Place {
    worker: WorkerName,
    pid: i32,
    others: u64,
}

impl Pictures {
    /// A picture of a job that runs in these pools, below this keeper; None if it does not run there.
    pub(super) async fn take(
        &self,
        job: &JobId,
        pools: &[PoolStatus],
        keeper: i32,
    ) -> Result<Option<Picture>, Problem> {
        let mut slots = pools.iter().flat_map(|pool| &pool.slots);
        let Some(place) = slots.find_map(|slot| place(slot, job)) else { return Ok(None) };
        let gone = || Problem::conflict(format!("the processes of job '{job}' have just ended"));
        let (seen, strangers) = self.look(job, place.pid, keeper).await?.ok_or_else(gone)?;
        let (worker, others, at) = (place.worker, place.others, Millis(clock::wall_millis()));
        Ok(Some(Picture { job: job.clone(), worker, others, at, strangers, seen }))
    }

    async fn look(&self, job: &JobId, pid: i32, keeper: i32) -> Result<Option<Seen>, Problem> {
        if Arc::strong_count(&self.under_way) > LOOKS {
            return Err(Problem::unavailable(format!(
                "{LOOKS} pictures are being taken and none is done: the kernel has locked their processes"
            )));
        }
        let (seen, answer) = oneshot::channel();
        let under_way = self.under_way.clone();
        // Not on tokio's threads: one that never returns would keep the runtime from ending.
        let thread = thread::Builder::new().name("picture".into()).stack_size(128 << 10);
        let begun = thread.spawn(move || {
            let found = look(pid, keeper);
            drop(under_way);
            seen.send(found).ok();
        });
        begun.map_err(|error| Problem::unavailable(format!("failed to look at job '{job}': {error}")))?;
        match tokio::time::timeout(PATIENCE, answer).await {
            Ok(found) => Ok(found.ok().flatten()),
            Err(_) => Err(Problem::unavailable(format!(
                "the processes of job '{job}' could not be read within {} s: the kernel has locked one of them",
                PATIENCE.as_secs()
            ))
            .hint("taskvisor status shows its state: D is one that waits for a disk")),
        }
    }
}

/// Before and after, the leader must be a child of the keeper: else it has ended, and its pid may be another process's.
fn look(pid: i32, keeper: i32) -> Option<Seen> {
    let is_ours = || usage::parent(pid) == Some(keeper);
    let seen = is_ours().then(|| snapshot::look_closely(pid))??;
    let owner = |pid: i32| std::fs::metadata(format!("/proc/{pid}")).ok().map(|of| of.uid());
    let owners: BTreeSet<u32> = seen.processes.iter().filter_map(|one| owner(one.pid)).collect();
    let own = nix::unistd::geteuid().as_raw();
    // Root may look at all of them.
    let strangers = owners.into_iter().filter(|uid| *uid != own && own != 0).collect();
    is_ours().then_some((seen, strangers))
}

/// Why there is no picture of a job, which the broker shows so.
pub(super) fn none(id: &JobId, job: Option<&JobRecord>, own: &Instance) -> Problem {
    match job {
        Some(job) if job.state.is_leased() && job.instance.as_ref() != Some(own) => {
            let of = job.instance.as_ref().map_or("another program", |of| of.as_str());
            Problem::conflict(format!("job '{id}' runs at {of}: ask there for a picture of it"))
        }
        Some(job) => {
            Problem::conflict(format!("job '{id}' is {}: only what runs here has a picture", job.state))
                .hint("job show has what was recorded before it was ended for a limit")
        }
        None => Problem::unavailable(format!("the broker does not say where job '{id}' runs")),
    }
}

fn place(slot: &SlotStatus, job: &JobId) -> Option<Place> {
    slot.jobs.iter().find(|running| running.id == *job)?;
    let worker = WorkerName { slot: slot.slot.clone(), generation: slot.generation };
    Some(Place { worker, pid: slot.process.as_ref()?.pid, others: slot.jobs.len() as u64 - 1 })
}
