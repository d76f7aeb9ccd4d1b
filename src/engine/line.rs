//! A line of the supervisor's own log: a sentence, and fields beside it.

use tracing::Level;

use model::{JobId, QueueName, WorkerName};

/// The longest text of a job that a line quotes, in characters.
const QUOTED: usize = 200;

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

    pub(super) fn job(self, job: &JobId) -> Line {
        Line { job: Some(job.clone()), ..self }
    }

    pub(super) fn pool(self, pool: &str) -> Line {
        Line { pool: Some(pool.to_owned()), ..self }
    }

    pub(super) fn by(self, by: &str) -> Line {
        Line { by: Some(by.to_owned()), ..self }
    }

    /// Writes the line to the log.
    pub(super) fn write(&self) {
        let (job, queue) = (self.job.as_ref().map(JobId::shown), self.queue.as_ref().map(QueueName::shown));
        let (job, queue) = (job.as_deref(), queue.as_deref());
        let worker = self.worker.as_ref().map(tracing::field::display);
        let (pool, by, message) = (self.pool.as_deref(), self.by.as_deref(), &self.message);
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

/// Cuts a text from a job to the length that a line may quote.
pub(super) fn cut(text: &str) -> String {
    match text.char_indices().nth(QUOTED) {
        None => text.to_owned(),
        Some((end, _)) => format!("{} [{} bytes more]", &text[..end], text.len() - end),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_of_a_job_is_cut() {
        assert_eq!(cut("short"), "short");
        assert_eq!(cut(&"é".repeat(1000)), format!("{} [1600 bytes more]", "é".repeat(200)));
    }
}
