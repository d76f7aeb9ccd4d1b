//! Publishes events of workers, orders and health to subscribers. Brokers publish those of jobs.

use super::fact::Row;
use super::line::cut;
use broker::EventBus;
use model::verb::Verb;
use model::{Millis, PublishedEvent, What};

/// Publishes the event of a fact, if it has one. Without subscribers the event is not even made.
pub(super) fn publish(room: &EventBus, row: &Row<'_>) {
    let Some(what) = row.event.filter(|_| room.is_heard()) else { return };
    room.tell(PublishedEvent {
        worker: row.worker.cloned(),
        pool: row.pool.map(Into::into),
        by: row.by.map(Into::into),
        why: row.detail.map(|detail| detail.to_string()),
        before: row.health.map(|(before, _)| before),
        health: row.health.map(|(_, health)| health),
        ..now(what)
    });
}

fn now(what: What) -> PublishedEvent {
    PublishedEvent::new(what, Millis(clock::wall_millis()))
}

/// The event of a person's order about a queue or an option, to publish once the broker has carried it out. None for
/// other orders, and without subscribers.
pub(super) fn of_verb(room: &EventBus, verb: &Verb, by: &str) -> Option<PublishedEvent> {
    if !room.is_heard() {
        return None;
    }
    let (what, queue, why) = if let Verb::Pause(asked) = verb {
        (What::Paused, Some(&asked.queue), asked.reason.as_deref().map(cut))
    } else if let Verb::Resume(asked) = verb {
        (What::Resumed, Some(&asked.queue), None)
    } else if let Verb::SetOption(asked) = verb {
        (What::Option, asked.queue.as_ref(), Some(format!("{} {}", asked.name, cut(&asked.value))))
    } else if let Verb::UnsetOption(asked) = verb {
        (What::Option, asked.queue.as_ref(), Some(format!("{} unset", asked.name)))
    } else if let Verb::LoadOptions(_) = verb {
        (What::Option, None, Some("several loaded at once".to_owned()))
    } else {
        return None;
    };
    Some(PublishedEvent { queue: queue.cloned(), by: Some(by.to_owned()), why, ..now(what) })
}
