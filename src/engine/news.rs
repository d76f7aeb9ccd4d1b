//! What happens to workers, for those who listen.

use crate::broker::Newsroom;
use crate::clock;
use crate::model::{ExitStatus, Millis, News, Signal, What, WorkerId};
use crate::process::Children;
use crate::supervisor::{Command, Event};

/// An order of the supervisor.
pub(super) fn order(room: &Newsroom, command: &Command, children: &Children) {
    if let Command::Signal(worker, signal, why) = command {
        let what = match signal {
            Signal::Term => What::Asked,
            Signal::Kill => What::Killed,
        };
        tell(room, children, *worker, what, || Some(why.to_string()));
    }
}

/// A fact on its way to the supervisor.
pub(super) fn fact(room: &Newsroom, event: &Event, children: &Children) {
    if let Event::Spawned(worker) = event {
        tell(room, children, *worker, What::Started, || None);
    } else if let Event::Ready(worker) = event {
        tell(room, children, *worker, What::Ready, || None);
    } else if let Event::Exited(worker, exit) = event {
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
    room: &Newsroom,
    children: &Children,
    worker: WorkerId,
    what: What,
    why: impl FnOnce() -> Option<String>,
) {
    if room.is_heard() {
        let news = News::new(what, Millis(clock::wall_millis()));
        room.tell(News { worker: Some(children.name(worker)), why: why(), ..news });
    }
}
