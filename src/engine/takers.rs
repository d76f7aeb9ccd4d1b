//! What the pools here take: the loop's part of what a put says of its jobs.

use std::collections::BTreeSet;

use model::{Class, QueueName, Why};
use supervisor::Supervisor;

/// The classes of new jobs, by queue; none of programs, which all pools of programs run.
pub(super) type Wanted = BTreeSet<(QueueName, Class)>;

/// What the pools here take.
#[derive(Default)]
pub(super) struct Takers {
    /// The queues of the pools.
    pub(super) queues: BTreeSet<QueueName>,
    /// Those of the wanted classes that no worker of the queue knows, with some that are known there.
    pub(super) unknown: Vec<(QueueName, Class, Vec<Class>)>,
}

/// The loop's part of the notes.
pub(super) fn takers(supervisor: &Supervisor, wanted: Wanted) -> Takers {
    let lacks = |(queue, class): (QueueName, Class)| {
        supervisor.lacks(&queue, &class).then(|| {
            let known = supervisor.known(&queue).into_iter().take(Why::KNOWN_MAX).cloned().collect();
            (queue, class, known)
        })
    };
    Takers {
        queues: supervisor.queues().cloned().collect(),
        unknown: wanted.into_iter().filter_map(lacks).collect(),
    }
}
