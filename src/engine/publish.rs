//! Publishes events of workers, orders and health to subscribers. Brokers publish those of jobs.

use super::line::cut;
use super::orders;
use broker::EventBus;
use model::verb::Verb;
use model::{Change, ExitStatus, Health, Millis, PublishedEvent, Scale, Signal, Stop, What, WorkerId};
use process::Children;
use supervisor::{Command, Event, Step};

/// Publishes an order of the supervisor.
pub(super) fn order(room: &EventBus, command: &Command, children: &Children) {
    if let Command::Signal { worker, signal, why } = command {
        let what = match signal {
            Signal::Term => What::Asked,
            Signal::Kill => What::Killed,
        };
        tell(room, children, *worker, what, || Some(why.to_string()));
    }
}

/// Publishes an event for the supervisor.
pub(super) fn fact(room: &EventBus, event: &Event, children: &Children) {
    if let Event::Spawned(worker) = event {
        tell(room, children, *worker, What::Started, || None);
    } else if let Event::Ready(worker) = event {
        tell(room, children, *worker, What::Ready, || None);
    } else if let Event::Exited { worker, exit, .. } = event {
        tell(room, children, *worker, What::Exited, || {
            Some(match exit.status {
                _ if exit.oom => "out of memory".into(),
                ExitStatus::Code(code) => format!("exit {code}"),
                ExitStatus::Signal { signal, .. } => format!("signal {signal}"),
            })
        });
    }
}

fn tell(
    room: &EventBus,
    children: &Children,
    worker: WorkerId,
    what: What,
    why: impl FnOnce() -> Option<String>,
) {
    publish(room, what, |news| PublishedEvent { worker: Some(children.name(worker)), why: why(), ..news });
}

/// Publishes an event that happens now. Without subscribers the event is not even made.
fn publish(room: &EventBus, what: What, filled: impl FnOnce(PublishedEvent) -> PublishedEvent) {
    if room.is_heard() {
        room.tell(filled(now(what)));
    }
}

fn now(what: What) -> PublishedEvent {
    PublishedEvent::new(what, Millis(clock::wall_millis()))
}

/// A person ordered a change of pools, or a stop.
pub(super) fn ordered(room: &EventBus, event: &Event, (by, reason): (&str, Option<&str>)) {
    let by = Some(by.to_owned());
    if let Event::Change(pool, change) = event {
        let (what, why) = match change {
            Change::Recycle => (What::Recycled, None),
            Change::Pause => (What::Paused, reason.map(cut)),
            Change::Resume => (What::Resumed, None),
            Change::Scale(Scale::To(workers)) => (What::Scaled, Some(format!("to {workers}"))),
            Change::Scale(Scale::By(more)) => (What::Scaled, Some(format!("by {more:+}"))),
        };
        publish(room, what, |news| PublishedEvent { pool: pool.clone(), by, why, ..news });
    } else if let Event::Stop(stage) = event {
        let stage = match stage {
            Stop::Drain => "drain",
            Stop::Terminate => "terminate",
            Stop::Kill => "kill",
        };
        publish(room, What::Stopping, |news| PublishedEvent { by, why: Some(stage.into()), ..news });
    }
}

/// A person had the settings read again: publishes what changes, or why nothing does.
pub(super) fn reloaded(room: &EventBus, outcome: Result<&[(String, Step)], &str>, by: &str) {
    let (what, why) = match outcome {
        Ok(steps) => (What::Reloaded, orders::steps(steps)),
        Err(why) => (What::ReloadRefused, why.to_owned()),
    };
    publish(room, what, |news| PublishedEvent { by: Some(by.to_owned()), why: Some(why), ..news });
}

/// The health of the service or its reasons have changed.
pub(super) fn judged(room: &EventBus, before: Health, health: Health, reasons: &[String]) {
    let why = Some(reasons.join("; ")).filter(|why| !why.is_empty());
    publish(room, What::Health, |news| PublishedEvent {
        before: Some(before),
        health: Some(health),
        why,
        ..news
    });
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
