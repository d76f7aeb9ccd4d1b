//! Publishes events of workers, orders and health to subscribers. Brokers publish those of jobs.

use super::fact::Row;
use super::line::Line;
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

/// The event and the line of a person's request, to publish and write once the broker has carried it out. No event of
/// one that the broker publishes itself, and none without subscribers.
pub(super) fn of_request(room: &EventBus, verb: &Verb, by: &str) -> (Option<PublishedEvent>, Option<Line>) {
    let Some(said) = verb.notice() else { return (None, None) };
    let event = said.event.clone().filter(|_| room.is_heard()).map(|(what, why)| PublishedEvent {
        queue: said.queue.clone(),
        by: Some(by.to_owned()),
        why,
        ..now(what)
    });
    (event, Some(Line::of(said, by)))
}
