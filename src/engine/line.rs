//! A line of the supervisor's own log: a sentence, and fields beside it.

use tracing::Level;

use model::verb::Said;
use model::{JobId, QueueName, WorkerName};

/// A line of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) level: Level,
    pub(super) message: String,
    pub(super) job: Option<JobId>,
    pub(super) worker: Option<WorkerName>,
    pub(super) pool: Option<String>,
    pub(super) queue: Option<QueueName>,
    pub(super) by: Option<String>,
}

impl Line {
    pub(super) fn new(level: Level, message: impl Into<String>) -> Line {
        let message = message.into();
        Line { level, message, job: None, worker: None, pool: None, queue: None, by: None }
    }

    pub(super) fn pool(self, pool: &str) -> Line {
        Line { pool: Some(pool.to_owned()), ..self }
    }

    /// The line of a request, with who asked.
    pub(super) fn of(said: Said, by: &str) -> Line {
        let Said { message, job, queue, event: _ } = said;
        Line { job, queue, by: Some(by.to_owned()), ..Line::new(Level::INFO, message) }
    }

    /// Writes the line to the log.
    pub(super) fn write(&self) {
        let (job, queue) = (self.job.as_ref().map(JobId::shown), self.queue.as_ref().map(QueueName::shown));
        let (job, queue) = (job.as_deref(), queue.as_deref());
        let worker = self.worker.as_ref().map(tracing::field::display);
        let (pool, by, message) = (self.pool.as_deref(), self.by.as_deref(), &self.message);
        // tracing wants the level of each line at compile time.
        macro_rules! at {
            ($level:ident) => {
                tracing::$level!(job, worker, pool, queue, by, "{message}")
            };
        }
        match self.level {
            Level::ERROR => at!(error),
            Level::WARN => at!(warn),
            Level::INFO => at!(info),
            Level::DEBUG => at!(debug),
            Level::TRACE => at!(trace),
        }
    }
}
