//! Amazon SQS in virtual time: the service, and the adapter with its receives and its buffers. Which queue is received
//! from, and what a fetch takes, is decided by the adapter's own code ([`PollPlan`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::calls::{Batch, Calls};
use super::nanos;
use super::supply::{Asked, Number, Supply};
use model::{Instant, QueueName, Take, Waiting};
use select::terms::{COUNTED, HOLD, LINGER};
use select::{Here, PollPlan, Receive, Wish};

/// The default lease of a job, and when it is renewed.
const LEASE: Duration = Duration::from_secs(60);
const RENEWED: Duration = Duration::from_secs(20);

/// How Amazon SQS is reached, and what it costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sqs {
    /// How long a call takes that need not wait for a message.
    pub call: Duration,
    /// The price of a million calls.
    pub per_million: f64,
}

impl Default for Sqs {
    fn default() -> Self {
        // In dollars, for a standard queue in most regions.
        Sqs { call: Duration::from_millis(20), per_million: 0.40 }
    }
}

/// What happens later, with the place of its queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    /// The receive is at the service, and looks for messages.
    Looks(usize),
    /// The receive with this number has waited for a message for as long as it may.
    IsOver(usize, u64),
    /// The answer to the receive is here.
    Answered(usize),
    /// The queues behind it have waited for the receive with this number for long enough.
    IsLate(usize, u64),
    /// Messages that no worker has taken go back.
    HeldLong(usize),
    /// A message that went back is visible.
    IsBack(Number),
}

/// Where an open receive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// On its way to the service.
    Asks,
    /// At the service, where no message is visible.
    Waits,
    /// Its answer is on the way.
    Answers,
}

/// An open receive.
struct Open {
    number: u64,
    receive: Receive,
    stage: Stage,
    /// The messages that it brings.
    brings: Vec<usize>,
}

/// A queue: what is visible in the service, and what waits here.
struct Lane {
    name: QueueName,
    /// When its messages were sent, by number.
    sent: Vec<u64>,
    visible: BTreeSet<usize>,
    /// The messages in the buffer, and when they came.
    here: VecDeque<(usize, u64)>,
    open: Option<Open>,
    /// How many were visible, and until when that is trusted.
    counted: Option<(u64, u64)>,
    /// When the oldest of the latest messages was sent, or when some were first counted.
    waits_since: Option<u64>,
    ends: Batch,
    hides: Batch,
}

/// The service and the adapter.
pub(super) struct OnSqs {
    terms: Sqs,
    lanes: Vec<Lane>,
    /// The places of the queues by their names: in this order their receives begin, if several may.
    places: BTreeMap<QueueName, usize>,
    plan: PollPlan,
    pool: Arc<str>,
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    /// Number of events and receives so far.
    number: u64,
    given: Vec<Number>,
    calls: Calls,
}

impl OnSqs {
    pub(super) fn new(terms: Sqs, names: &[QueueName]) -> OnSqs {
        let lane = |name: &QueueName| Lane {
            name: name.clone(),
            sent: Vec::new(),
            visible: BTreeSet::new(),
            here: VecDeque::new(),
            open: None,
            counted: None,
            waits_since: None,
            ends: Batch::default(),
            hides: Batch::default(),
        };
        OnSqs {
            terms,
            lanes: names.iter().map(lane).collect(),
            places: names.iter().cloned().zip(0..).collect(),
            plan: PollPlan::default(),
            pool: "default".into(),
            events: BinaryHeap::new(),
            number: 0,
            given: Vec::new(),
            calls: Calls::default(),
        }
    }

    fn later(&mut self, at: u64, event: Event) {
        self.number += 1;
        // The number keeps events of the same moment in the order of their causes.
        self.events.push(Reverse((at, self.number, event)));
    }

    /// The way of a request to the service, or of its answer.
    fn way(&self) -> u64 {
        nanos(self.terms.call) / 2
    }

    /// Begins the receives that are worthwhile now.
    fn look_again(&mut self, now: u64) {
        for place in self.places.values().copied().collect::<Vec<_>>() {
            self.look(now, place);
        }
    }

    fn look(&mut self, now: u64, place: usize) {
        let name = self.lanes[place].name.clone();
        let here =
            |queue: &QueueName| self.places.get(queue).map_or(0, |place| self.lanes[*place].here.len());
        let Some(receive) = self.plan.next(&name, Instant(now), here) else { return };
        self.plan.began(&name, &receive, Instant(now));
        let number = self.number;
        if let Some(patience) = self.plan.patience(&receive) {
            self.later(now + nanos(patience), Event::IsLate(place, number));
        }
        self.lanes[place].open = Some(Open { number, receive, stage: Stage::Asks, brings: Vec::new() });
        self.later(now + self.way(), Event::Looks(place));
    }

    /// A receive looks for messages at the service.
    fn looks(&mut self, now: u64, place: usize) {
        let (way, lane) = (self.way(), &mut self.lanes[place]);
        // Each message that appears has the receive look again: the first look of a moment may have found
        // all.
        let Some(open) = lane.open.as_mut().filter(|open| open.stage != Stage::Answers) else { return };
        while open.brings.len() < open.receive.most
            && let Some(number) = lane.visible.pop_first()
        {
            open.brings.push(number);
        }
        let (wait, number) = (nanos(open.receive.wait()), open.number);
        match (open.brings.is_empty(), open.stage) {
            (true, Stage::Asks) if wait > 0 => {
                open.stage = Stage::Waits;
                self.later(now + wait, Event::IsOver(place, number));
            }
            (true, Stage::Waits) => {}
            _ => {
                open.stage = Stage::Answers;
                self.later(now + way, Event::Answered(place));
            }
        }
    }

    /// The receive with this number has waited for long enough, if it still waits.
    fn is_over(&mut self, now: u64, place: usize, number: u64) {
        let is_it = |open: &&mut Open| open.number == number && open.stage == Stage::Waits;
        if let Some(open) = self.lanes[place].open.as_mut().filter(is_it) {
            open.stage = Stage::Answers;
            self.later(now + self.way(), Event::Answered(place));
        }
    }

    /// Messages are visible: a receive that waits there looks again.
    fn appeared(&mut self, now: u64, (place, number): Number) {
        let lane = &mut self.lanes[place];
        lane.visible.insert(number);
        if lane.open.as_ref().is_some_and(|open| open.stage == Stage::Waits) {
            // After all that come at this moment.
            self.later(now, Event::Looks(place));
        }
    }

    /// Takes an answer of SQS. Gives whether it wakes the supervisor.
    fn answered(&mut self, now: u64, place: usize) -> bool {
        let lane = &mut self.lanes[place];
        let Some(Open { receive, brings, .. }) = lane.open.take() else { return false };
        let count = brings.len();
        lane.counted = (count == 0).then_some((0, now + nanos(receive.trusted())));
        lane.waits_since = brings.iter().map(|number| lane.sent[*number]).min();
        lane.here.extend(brings.into_iter().map(|number| (number, now)));
        self.plan.answered(&lane.name, count, Instant(now));
        if count == 0 {
            self.calls.empty += 1;
        } else {
            self.calls.receive += 1;
            self.later(now + nanos(HOLD), Event::HeldLong(place));
        }
        self.look(now, place);
        self.look_again(now);
        receive.is_awaited || count > 0
    }

    /// Whether the receive with this number is still without an answer.
    fn is_open(&self, place: usize, number: u64) -> bool {
        self.lanes[place].open.as_ref().is_some_and(|open| open.number == number)
    }

    /// Gives back the messages that no worker has taken in time. True if there are any.
    fn give_back_late(&mut self, now: u64, place: usize) -> bool {
        let (back, lane) = (now + nanos(LINGER) + self.way(), &mut self.lanes[place]);
        let (late, left): (VecDeque<_>, VecDeque<_>) =
            lane.here.drain(..).partition(|(_, since)| is_late(now, *since));
        lane.here = left;
        if !late.is_empty() {
            self.plan.nobody_took(&lane.name);
        }
        for (number, _) in &late {
            self.calls.hide += u64::from(self.lanes[place].hides.begins_call(now));
            self.later(back, Event::IsBack((place, *number)));
        }
        self.look(now, place);
        !late.is_empty()
    }
}

impl Supply for OnSqs {
    fn come(&mut self, now: u64, job: Number) -> bool {
        self.lanes[job.0].sent.push(now);
        self.appeared(now, job);
        false
    }

    fn ask(&mut self, now: u64, asked: Asked) {
        let Asked { places, names, take, most } = asked;
        let is_ordered = take == Take::InOrder;
        let wish = Wish { pool: &self.pool, queues: &names, take, is_ordered, most, lease: LEASE };
        let lanes = &mut self.lanes;
        self.given = self.plan.take(&wish, Instant(now), |at| {
            let here = &mut lanes[places[at]].here;
            let first = here.iter().position(|(_, since)| !is_late(now, *since));
            match first.and_then(|first| here.remove(first)) {
                Some((number, _)) => Here::Gave((places[at], number)),
                None if here.is_empty() => Here::Nothing,
                None => Here::Blocked,
            }
        });
        self.look_again(now);
    }

    fn answer(&mut self) -> Vec<Number> {
        std::mem::take(&mut self.given)
    }

    fn due(&self) -> Option<u64> {
        self.events.peek().map(|Reverse((at, ..))| *at)
    }

    fn happen(&mut self, now: u64) -> bool {
        let mut is_told = false;
        while self.due().is_some_and(|at| at <= now)
            && let Some(Reverse((_, _, event))) = self.events.pop()
        {
            match event {
                Event::Looks(place) => self.looks(now, place),
                Event::IsOver(place, number) => self.is_over(now, place, number),
                Event::Answered(place) => is_told |= self.answered(now, place),
                Event::IsLate(place, number) if self.is_open(place, number) => {
                    self.plan.is_late(&self.lanes[place].name);
                    self.look_again(now);
                    is_told = true;
                }
                Event::IsLate(..) => {}
                Event::HeldLong(place) => is_told |= self.give_back_late(now, place),
                Event::IsBack(job) => self.appeared(now, job),
            }
        }
        is_told
    }

    fn ended(&mut self, now: u64, (place, _): Number, ran: u64) {
        self.calls.delete += u64::from(self.lanes[place].ends.begins_call(now));
        // A job that ends when its lease is to be renewed needs no call for that.
        self.calls.hide += ran.saturating_sub(1) / nanos(RENEWED);
    }

    fn waiting(&mut self, now: u64, place: usize) -> Waiting {
        let lane = &mut self.lanes[place];
        let visible = match lane.counted.filter(|(_, until)| now < *until) {
            Some((visible, _)) => visible,
            None => {
                let visible = lane.visible.len() as u64;
                self.calls.count += 1;
                lane.counted = Some((visible, now + nanos(COUNTED)));
                if visible > 0 {
                    lane.waits_since.get_or_insert(now);
                }
                visible
            }
        };
        let jobs = visible + lane.here.len() as u64;
        let age = lane.waits_since.filter(|_| jobs > 0).map(|since| Duration::from_nanos(now - since));
        Waiting { jobs, age }
    }

    fn calls(&self) -> Option<Calls> {
        Some(self.calls)
    }
}

/// Whether a message that came at a moment has waited here for too long.
fn is_late(now: u64, since: u64) -> bool {
    now - since >= nanos(HOLD)
}

#[cfg(test)]
#[path = "sqs_tests.rs"]
mod tests;
