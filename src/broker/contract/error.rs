//! What can go wrong with a broker, said so that a person knows who must act.

use crate::model::verb::{Ability, Refusal};
use crate::model::{JobId, JobState, QueueName};

/// A broker's refusal or failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such job.
    #[error("no job has the id '{0}'")]
    NoJob(JobId),
    /// No such job, which another was to wait for.
    #[error("a job cannot depend on '{0}': no job has that id")]
    NoneToNeed(JobId),
    /// No such queue.
    #[error("no queue is called '{0}'")]
    NoQueue(QueueName),
    /// No such recurring job.
    #[error("no recurring job is called '{0}'")]
    NoRecurring(String),
    /// The id is taken.
    #[error("a job with the id '{0}' exists already")]
    Exists(JobId),
    /// The job's state does not allow it.
    #[error("job '{id}' is {state}: it cannot be {verb}")]
    WrongState {
        /// The job's id.
        id: JobId,
        /// The job's state.
        state: JobState,
        /// What was asked, as a participle: `retried`.
        verb: &'static str,
    },
    /// Other jobs wait for it.
    #[error("job '{id}' cannot be {verb}: {} {} it", names(by), if by.len() == 1 { "needs" } else { "need" })]
    Needed {
        /// The job's id.
        id: JobId,
        /// Those that wait for it.
        by: Vec<JobId>,
        /// What was asked, as a participle: `canceled`.
        verb: &'static str,
    },
    /// A queue is of use, and in which way.
    #[error("queue '{0}' cannot be forgotten: {1}")]
    InUse(QueueName, String),
    /// Another program has put something else in the place of a job: its key, and what is there.
    #[error(
        "the key {0} holds no job but a {1} of another program: if nobody needs it, `redis-cli DEL {0}` removes it"
    )]
    NotAJob(String, String),
    /// This kind of broker cannot do it at all.
    #[error("the broker {broker} cannot {}: {instead}", ability.does())]
    Unsupported {
        /// What people call it.
        broker: &'static str,
        /// What was asked for.
        ability: Ability,
        /// What to do instead.
        instead: &'static str,
    },
    /// Some of the jobs were put and the rest were not, or nobody knows.
    #[error("{} of {asked} jobs were put ({}), the others {}: {error}", put.len(), listed(put), not_put(error))]
    PartlyPut {
        /// The ids of those that wait now.
        put: Vec<JobId>,
        /// How many there were in all.
        asked: usize,
        /// Why the first of the others was not.
        error: Box<Error>,
    },
    /// The URL of the broker is wrong; nothing was asked of it yet.
    #[error("{0}")]
    Url(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Refused(String),
    /// The place where jobs were kept holds none any more; where, how that shows, and what to do.
    #[error("{0}")]
    Lost(String),
    /// The broker does not answer or could not do it; what was asked, on what, why, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The broker was asked and has not answered: what was asked may have been done. The same words.
    #[error("{0}")]
    Unanswered(String),
}

impl Error {
    /// Why one of several jobs was left as it is.
    pub fn refused(id: JobId, refusal: Refusal, verb: &'static str) -> Error {
        match refusal {
            Refusal::NoJob => Error::NoJob(id),
            Refusal::State { state } => Error::WrongState { id, state, verb },
            Refusal::NeededBy { jobs } => Error::Needed { id, by: jobs, verb },
        }
    }
}

/// The first of them.
fn names(ids: &[JobId]) -> String {
    const SHOWN: usize = 10;
    let first: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("'{id}'")).collect();
    match ids.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The ids, as many as a person reads.
fn listed(put: &[JobId]) -> String {
    const MANY: usize = 20;
    let mut ids: Vec<&str> = put.iter().take(MANY).map(JobId::as_str).collect();
    if put.len() > MANY {
        ids.push("…");
    }
    ids.join(", ")
}

/// What is known of the jobs that are not among those that were put.
fn not_put(error: &Error) -> &'static str {
    if matches!(error, Error::Unanswered(_)) { "may have been" } else { "were not" }
}
