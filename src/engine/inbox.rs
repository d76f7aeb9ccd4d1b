//! All inputs of the supervisor's loop, one at a time.

use std::io;

use tokio::sync::mpsc::{Receiver, Sender, channel};

use super::effects::Effects;
use super::request::Request;
use super::snapshots::Seen;
use super::worker_calls::Answer;
use model::Instant;
use process::{Alarm, KeeperMessage};
use supervisor::Event;

/// Limit of the answers and requests that wait here; a sender of more waits.
const ROOM: usize = 1024;

/// The receiving end.
pub(super) struct Inbox {
    events: Receiver<Event>,
    requests: Receiver<Request>,
    answers: Receiver<Answer>,
    alarm: Alarm,
}

/// One input of the loop.
pub(super) enum Input {
    /// An event for the supervisor.
    Event(Event),
    /// A report of the keeper.
    KeeperMessage(KeeperMessage),
    /// The answer to a call of a worker.
    Answer(Answer),
    /// The snapshot of a worker that will be ended.
    Seen(Seen),
    /// Children have printed or reported something, or can take more input.
    Output,
    /// A request to the loop.
    Request(Request),
    /// The supervisor's deadline has come.
    Timeout,
    /// The keeper's end of the socket is closed.
    KeeperGone,
}

impl Inbox {
    /// An inbox with the three ends that fill it.
    pub(crate) fn new(alarm: Alarm) -> (Inbox, Sender<Event>, Sender<Request>, Sender<Answer>) {
        let (event_sender, events) = channel(ROOM);
        let (request_sender, requests) = channel(ROOM);
        let (answer_sender, answers) = channel(ROOM);
        let inbox = Inbox { events, requests, answers, alarm };
        (inbox, event_sender, request_sender, answer_sender)
    }

    /// Waits for the next input, at most until the deadline.
    pub(crate) async fn next(
        &mut self,
        effects: &mut Effects,
        deadline: Option<Instant>,
    ) -> io::Result<Input> {
        // First, or a steady flow of other inputs would hide the deadline.
        if deadline.is_some_and(|deadline| deadline <= clock::now()) {
            return Ok(Input::Timeout);
        }
        Ok(tokio::select! {
            // The keeper first: deaths and orders to stop do not wait behind requests and output.
            biased;
            message = effects.link.recv() => message?.map_or(Input::KeeperGone, Input::KeeperMessage),
            Some(event) = self.events.recv() => Input::Event(event),
            Some(request) = self.requests.recv() => Input::Request(request),
            Some(answer) = self.answers.recv() => Input::Answer(answer),
            ready = effects.children.ready() => ready.map(|()| Input::Output)?,
            seen = effects.snapshots.next() => Input::Seen(seen),
            rung = self.alarm.rings(deadline) => rung.map(|()| Input::Timeout)?,
        })
    }

    /// The next event if there is one already.
    pub(crate) fn try_next(&mut self) -> Option<Event> {
        self.events.try_recv().ok()
    }
}
