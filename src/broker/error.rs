//! Errors of a broker, worded so that a person knows who must act.

use model::verb::{Ability, Refusal};
use model::{JobId, JobState, QueueName};

/// A broker's refusal or failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such job.
    #[error("no job has the id '{0}'")]
    NoJob(JobId),
    /// The job that another one was to wait for does not exist.
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
        /// The jobs that wait for it.
        by: Vec<JobId>,
        /// What was asked, as a participle: `canceled`.
        verb: &'static str,
    },
    /// The queue is in use; the text says how.
    #[error("queue '{0}' cannot be forgotten: {1}")]
    InUse(QueueName, String),
    /// Another program has stored something else under the key of a job: the key, and what is there.
    #[error(
        "the key {0} is a {1} of another program, not what belongs there: if nobody needs it, `redis-cli DEL {0}` removes it"
    )]
    NotAJob(String, String),
    /// This kind of broker cannot do it at all.
    #[error("the broker {broker} cannot {}: {instead}", ability.does())]
    Unsupported {
        /// The name of the broker for people.
        broker: &'static str,
        /// The ability that the request needs.
        ability: Ability,
        /// What to do instead.
        instead: &'static str,
    },
    /// Some jobs were put, and the rest were not, or that is not known.
    #[error("{} of {} jobs were put ({}), the others {}: {error}", put.iter().flatten().count(), put.len(), listed(put), not_put(error))]
    PartlyPut {
        /// The id of each job that was put, in the order of the request.
        put: Vec<Option<JobId>>,
        /// Which of the others may have been put, as their broker has not answered: their numbers in the request, from 0.
        in_doubt: Vec<usize>,
        /// The error of the first job that was not put.
        error: Box<Error>,
    },
    /// The URL of the broker is wrong; no request was sent yet.
    #[error("{0}")]
    Url(String),
    /// The request itself is wrong.
    #[error("{0}")]
    Refused(String),
    /// The store where jobs were kept is gone: where, how that shows, and what to do.
    #[error("{0}")]
    Lost(String),
    /// The broker does not answer, or the request failed: which request, on which broker, why, and what to do.
    #[error("{0}")]
    Failed(String),
    /// The disk of the store refuses for now: it is full or fails, or another program has locked the file. The same request
    /// may work later. The text is as in `Failed`.
    #[error("{0}")]
    Disk(String),
    /// The broker has not answered: the request may have been carried out. The text is as in `Failed`.
    #[error("{0}")]
    Unanswered(String),
}

impl Error {
    /// Why one of several jobs was left unchanged.
    pub fn refused(id: JobId, refusal: Refusal, verb: &'static str) -> Error {
        match refusal {
            Refusal::NoJob => Error::NoJob(id),
            Refusal::State { state } => Error::WrongState { id, state, verb },
            Refusal::NeededBy { jobs } => Error::Needed { id, by: jobs, verb },
        }
    }
}

/// The first few ids, in words.
fn names(ids: &[JobId]) -> String {
    const SHOWN: usize = 10;
    let first: Vec<String> = ids.iter().take(SHOWN).map(|id| format!("'{id}'")).collect();
    match ids.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The first few ids of the jobs that were put, in words.
fn listed(put: &[Option<JobId>]) -> String {
    const MANY: usize = 20;
    let mut ids: Vec<&str> = put.iter().flatten().take(MANY).map(JobId::as_str).collect();
    if put.iter().flatten().count() > MANY {
        ids.push("…");
    }
    ids.join(", ")
}

/// What is known of the jobs that are not among those that were put.
fn not_put(error: &Error) -> &'static str {
    if matches!(error, Error::Unanswered(_)) { "may have been" } else { "were not" }
}
