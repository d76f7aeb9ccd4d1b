//! What a put says of jobs that nobody will run: they are put all the same.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::suggestion::suggestion;
use super::{Class, QueueName};

/// What is known to keep jobs of a put from running.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PutNote {
    /// The queue of the jobs.
    pub queue: QueueName,
    /// Their class, if the note is about that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// What keeps them from running.
    pub note: String,
    /// What was probably meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl PutNote {
    /// No pool takes jobs from the queue; `taken` are the queues from which pools do.
    pub fn no_pool(queue: &QueueName, taken: &BTreeSet<QueueName>) -> PutNote {
        let known: Vec<&str> = taken.iter().map(QueueName::as_str).collect();
        let note = format!("no pool here takes jobs from queue '{queue}': what is put there waits");
        PutNote { queue: queue.clone(), class: None, note, hint: suggestion(queue.as_str(), &known) }
    }

    /// No worker of the queue knows the class; `known` are the classes that they know.
    pub fn unknown(queue: &QueueName, class: &Class, known: &[Class]) -> PutNote {
        let known: Vec<&str> = known.iter().map(Class::as_str).collect();
        let note = format!(
            "no worker here knows the class '{class}': its jobs come back later, and are held in the end"
        );
        let hint = suggestion(class.as_str(), &known);
        PutNote { queue: queue.clone(), class: Some(class.clone()), note, hint }
    }
}
