//! The names of a queue and of its dead-letter queue at SQS.

/// The longest name at SQS, in characters.
const LONGEST: usize = 80;

/// The names of a kale queue at SQS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueNames {
    /// `{release}-{name}`, or the name.
    pub queue: String,
    /// `dlq-` before the queue's name.
    pub dead_letters: String,
}

/// Why SQS would refuse a name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// It has a character that SQS does not allow.
    #[error("the queue name '{0}' must have only letters, digits, '-' and '_'")]
    Letters(String),
    /// It is too long with `dlq-` before it.
    #[error("the queue name '{0}' is too long: with 'dlq-' before it, it may have {LONGEST} letters")]
    Long(String),
    /// It is a FIFO queue, but kale sends no message groups.
    #[error(
        "'{0}' is a FIFO queue, which kale cannot use: its messages have no group and a delay of their own"
    )]
    Fifo(String),
}

impl QueueNames {
    /// The names for a queue's name in tasks, with the prefix of a release if there is one.
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
