//! The queues in which jobs may have come.

use std::collections::BTreeSet;

use super::QueueName;

/// More names than this stand for all queues: a client may put into any number of them.
const MOST: usize = 64;

/// Some queues by their names, or all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueueSet {
    /// All queues there are.
    All,
    /// The queues of these names alone.
    Only(BTreeSet<QueueName>),
}

impl QueueSet {
    /// Adds other queues.
    pub fn add(&mut self, others: QueueSet) {
        match (&mut *self, others) {
            (QueueSet::Only(names), QueueSet::Only(others)) => {
                names.extend(others);
                if names.len() > MOST {
                    *self = QueueSet::All;
                }
            }
            (_, QueueSet::All) => *self = QueueSet::All,
            (QueueSet::All, QueueSet::Only(_)) => {}
        }
    }

    /// Whether any of these queues is among them.
    pub fn have_any_of(&self, queues: &[QueueName]) -> bool {
        match self {
            QueueSet::All => true,
            QueueSet::Only(names) => queues.iter().any(|queue| names.contains(queue)),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        matches!(self, QueueSet::Only(names) if names.is_empty())
    }
}

/// The set without a queue.
impl Default for QueueSet {
    fn default() -> Self {
        QueueSet::Only(BTreeSet::new())
    }
}

impl From<QueueName> for QueueSet {
    fn from(queue: QueueName) -> Self {
        QueueSet::Only(BTreeSet::from([queue]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_many_names_stand_for_all_queues() {
        let mut queues = QueueSet::default();
        assert!(queues.is_empty() && !queues.have_any_of(&["q0".into()]));
        (0..MOST).for_each(|number| queues.add(QueueName::from(format!("q{number}")).into()));
        assert!(queues.have_any_of(&["other".into(), "q63".into()]));
        assert!(!queues.have_any_of(&["other".into()]));
        queues.add(QueueName::from("one more").into());
        assert_eq!(queues, QueueSet::All);
        queues.add(QueueName::from("q0").into());
        assert!(queues.have_any_of(&["other".into()]) && !queues.is_empty());
    }
}
