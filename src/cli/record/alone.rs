//! What its supervisor knows of a job that runs alone, or waits to.

use crate::cli::term::screen::age;
use model::{Job, JobId, JobRecord, RunningJob, SlotStatus, Why};

/// The slot in which the job runs, and its run there. The job's record has only the worker of its first run.
pub(crate) fn running<'a>(why: &'a Why, id: &JobId) -> Option<(&'a SlotStatus, &'a RunningJob)> {
    let runs = slots(why).flat_map(|slot| slot.jobs.iter().map(move |run| (slot, run)));
    runs.into_iter().find(|(_, run)| run.id == *id)
}

/// The slot at which the job waits to run alone.
pub(crate) fn waiting<'a>(why: &'a Why, id: &JobId) -> Option<&'a SlotStatus> {
    slots(why).find(|slot| slot.waits.contains(id))
}

fn slots(why: &Why) -> impl Iterator<Item = &SlotStatus> {
    why.pools.iter().flat_map(|(pool, _)| &pool.slots)
}

/// Why the slot of a running job takes no other job, if it takes none.
pub(crate) fn reason(job: &JobRecord, run: &RunningJob) -> Option<String> {
    let reason = match &run.died_before {
        Some(dead) => format!("worker {} had other jobs too: {}", dead.worker, dead.how),
        None if job.interrupted >= Job::SUSPECTED_AFTER => {
            format!("its supervisor or host died {} times while it ran", job.interrupted)
        }
        None => "a worker died while it ran in an earlier attempt".into(),
    };
    run.alone.then_some(reason)
}

/// The row `alone` of a job's page.
pub(crate) fn row(why: &Why, job: &JobRecord) -> Option<String> {
    if let Some(slot) = waiting(why, &job.id) {
        return Some(format!("waits at slot {} until others have ended", slot.slot));
    }
    let (slot, run) = running(why, &job.id)?;
    let reason = reason(job, run)?;
    Some(format!("in worker {}#{} for {}; {reason}", slot.slot, slot.generation, age(run.ran)))
}
