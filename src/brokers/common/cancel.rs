//! Decides which of several jobs can be canceled together.

use std::collections::{HashMap, HashSet};

use broker::Error;
use model::verb::Refusal;
use model::{JobId, JobState};

/// Limit of the jobs in one cancel: it is one transaction, all or none, which blocks other writers.
pub const MOST: usize = 10_000;

/// A job to cancel.
pub struct Named {
    /// Its id, as it was named.
    pub job: JobId,
    /// None = there is no such job.
    pub state: Option<JobState>,
    /// The jobs that wait for it.
    pub dependents: Vec<JobId>,
}

/// The jobs that cannot be canceled, and why. A job is refused, too, if a job that waits for it stays.
pub fn refused(named: &[Named]) -> HashMap<JobId, Refusal> {
    let mut refused = HashMap::new();
    let mut ending: HashSet<&JobId> = HashSet::new();
    let mut needs: HashMap<&JobId, Vec<&JobId>> = HashMap::new();
    for Named { job, state, dependents } in named {
        match state {
            Some(state @ (JobState::Complete | JobState::Failed)) => {
                refused.insert(job.clone(), Refusal::State { state: *state });
            }
            Some(_) => drop(ending.insert(job)),
            None => {}
        }
        dependents.iter().for_each(|dependent| needs.entry(dependent).or_default().push(job));
    }
    let mut staying: Vec<&JobId> = needs.keys().copied().filter(|job| !ending.contains(job)).collect();
    // A HashMap has no order: without this the same request would be refused each time for another job.
    staying.sort_unstable();
    // What stays keeps the jobs that it needs, and these keep others.
    while let Some(job) = staying.pop() {
        for needed in needs.get(job).into_iter().flatten().copied() {
            if ending.remove(needed) {
                staying.push(needed);
            }
            let refusal = refused.entry(needed.clone()).or_insert(Refusal::NeededBy { jobs: Vec::new() });
            if let Refusal::NeededBy { jobs } = refusal {
                jobs.push(job.clone());
            }
        }
    }
    refused
}

/// The error for more jobs than [`MOST`].
pub fn too_many(next: &JobId) -> Error {
    Error::Refused(format!(
        "more than {MOST} jobs cannot be canceled at a time, and '{next}' would be one more: first cancel, in parts, those \
         that wait for the others"
    ))
}
