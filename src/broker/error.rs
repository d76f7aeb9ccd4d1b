//! What can go wrong with a broker, said so that a person knows who must act.

use crate::model::{JobId, JobState, QueueName};

/// A broker's refusal or failure.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such job.
    #[error("no job has the id '{0}'")]
    NoJob(JobId),
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
        /// Which.
        id: JobId,
        /// Its state.
        state: JobState,
        /// What was asked, as a participle: `retried`.
        verb: &'static str,
    },
    /// A queue is of use, and in which way.
    #[error("queue '{0}' cannot be forgotten: {1}")]
    InUse(QueueName, String),
    /// The request itself is wrong.
    #[error("{0}")]
    Refused(String),
    /// The broker does not answer or could not do it; what was asked, on what, why, and what to do.
    #[error("{0}")]
    Failed(String),
}
