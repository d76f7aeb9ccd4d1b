//! Errors in kale's file of queues, with their lines.

use std::fmt;

use super::queue_name::NameError;

/// A line, counted from 1; 0 if it was not found, as in the compact style with braces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(pub usize);

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => f.write_str("the file"),
            line => write!(f, "line {line}"),
        }
    }
}

/// An error in the file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueuesError {
    /// The file is not YAML.
    #[error("{0}")]
    Yaml(String),
    /// There is no queue at all.
    #[error("there is no queue in it: each queue is a key with its settings below it")]
    None,
    /// A key appears twice.
    #[error("line {again}: the {what} '{key}' is given twice, first in line {first}")]
    Twice {
        /// `queue` or `setting`.
        what: &'static str,
        /// The repeated key.
        key: String,
        /// The line where it appears first.
        first: usize,
        /// The line where it appears again.
        again: usize,
    },
    /// Two queues have the same name.
    #[error("line {again}: two queues have the name '{name}', the other in line {first}")]
    SameName {
        /// The name that both have.
        name: String,
        /// The line of the first.
        first: usize,
        /// The line of the second.
        again: usize,
    },
    /// Nothing is below a key.
    #[error("{place}: the queue '{key}' has no settings{}", next_line(*next))]
    Empty {
        /// The queue's key.
        key: String,
        /// The line of the key.
        place: Place,
        /// The line that follows, which may lack its indentation.
        next: Option<usize>,
    },
    /// Something other than a map.
    #[error("{place}: '{key}' is no queue: a queue is a map of its settings")]
    NoMap {
        /// The queue's key.
        key: String,
        /// The line of the key.
        place: Place,
    },
    /// A setting that kale requires.
    #[error("{place}: the queue '{key}' has no {setting}")]
    Missing {
        /// The queue's key.
        key: String,
        /// The line of the key.
        place: Place,
        /// Name of the setting.
        setting: &'static str,
    },
    /// A value that is not allowed.
    #[error("{place}: {setting} of the queue '{key}' is {value}: it must be {range}")]
    Value {
        /// The queue's key.
        key: String,
        /// The line of the setting.
        place: Place,
        /// Name of the setting.
        setting: &'static str,
        /// The value in the file.
        value: String,
        /// The allowed values.
        range: String,
    },
    /// A name that SQS refuses.
    #[error("{place}: {error}")]
    Name {
        /// The line of the name.
        place: Place,
        /// Why the name is refused.
        error: NameError,
    },
}

fn next_line(next: Option<usize>) -> String {
    next.map_or_else(String::new, |line| format!(": line {line} is not indented below it"))
}
