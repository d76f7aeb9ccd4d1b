//! The names of a queue and of its dead letters at SQS.

/// The longest name at SQS, in letters.
const LONGEST: usize = 80;

/// What queues of kale are called at SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueNames {
    /// `{release}-{name}`, or the name.
    pub queue: String,
    /// `dlq-` before that.
    pub dead_letters: String,
}

/// Why SQS would refuse a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// A letter that SQS does not take.
    #[error("the queue name '{0}' must have only letters, digits, '-' and '_'")]
    Letters(String),
    /// Too long, with `dlq-` before it.
    #[error("the queue name '{0}' is too long: with 'dlq-' before it, it may have {LONGEST} letters")]
    Long(String),
    /// kale sends no group of messages.
    #[error(
        "'{0}' is a FIFO queue, which kale cannot use: its messages have no group and a delay of their own"
    )]
    Fifo(String),
}

impl QueueNames {
    /// The names for a simple name, as tasks have it, in a release if there is one.
    pub fn new(name: &str, release: Option<&str>) -> Result<QueueNames, NameError> {
        let queue = release.map_or_else(|| name.to_owned(), |release| format!("{release}-{name}"));
        if queue.ends_with(".fifo") {
            return Err(NameError::Fifo(queue));
        }
        let letters =
            |text: &str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        if name.is_empty() || !letters(&queue) || release.is_some_and(str::is_empty) {
            return Err(NameError::Letters(queue));
        }
        let dead_letters = format!("dlq-{queue}");
        if dead_letters.len() > LONGEST {
            return Err(NameError::Long(queue));
        }
        Ok(QueueNames { queue, dead_letters })
    }
}
