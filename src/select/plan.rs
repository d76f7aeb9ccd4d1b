//! Which queue of Amazon SQS is received from next. Pure: the caller gives the time and what waits here.
//!
//! The order of a pool decides among the queues, not among the messages that happen to be here: while a queue may have
//! more messages, those behind it are not received from. A queue that is known to be empty holds up none. A long poll
//! waits there as a bell, which rings when a message comes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::demand::Demand;
use super::terms::{COUNTED, EMPTY, MOST, WAIT};
use super::turns::Turns;
use model::{Instant, QueueName, Take};

/// Time for which a queue counts as empty after an empty answer, while no poll waits there.
const FRESH: Duration = Duration::from_secs(1);
/// How long the queues behind one wait for its answer: at least, and at most.
const AWAITED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(1));
/// The time that an answer takes, while none has come.
const USUAL: Duration = Duration::from_millis(100);

/// What the latest receive from a queue has shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Known {
    /// Nothing is known, or nothing new.
    #[default]
    Unknown,
    /// It brought messages: there may be more.
    HasMore {
        /// Whether it brought as many as any can: there are more, most likely.
        is_full: bool,
    },
    /// It brought none, at that moment.
    Empty(Instant),
    /// It has failed, and is tried again.
    Failing,
}

/// An open receive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// The queues behind it wait for its answer. It began at this moment.
    Awaited(Instant),
    /// Its queue counts as empty until it answers.
    Bell,
}

/// What is known of a queue.
#[derive(Clone, Debug, Default)]
struct State {
    known: Known,
    open: Option<Open>,
    /// Whether messages wait here that no worker can take now: their message group runs, or their class is not wanted.
    is_blocked: bool,
}

impl State {
    /// What is known of it at a moment: an empty answer is soon out of date.
    fn known(&self, now: Instant) -> Known {
        let is_old = matches!(self.known, Known::Empty(at) if now.since(at) >= FRESH);
        if is_old { Known::Unknown } else { self.known }
    }
}

/// A receive to begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receive {
    /// How many messages it may bring.
    pub most: usize,
    /// Time for which these are invisible for others.
    pub lease: Duration,
    /// Whether it waits for a message if there is none: not if others wait for its answer, and there may be none.
    pub is_long: bool,
    /// Whether the queues behind it wait for its answer.
    pub is_awaited: bool,
}

impl Receive {
    /// How long the service waits for a message.
    pub fn wait(&self) -> Duration {
        if self.is_long { WAIT } else { Duration::ZERO }
    }

    /// Time for which its queue counts as empty if it brings nothing.
    pub fn trusted(&self) -> Duration {
        if self.is_long { EMPTY } else { COUNTED }
    }
}

/// What a pool asks for.
#[derive(Clone, Copy, Debug)]
pub struct Wish<'a> {
    /// Name of the pool.
    pub pool: &'a Arc<str>,
    /// Its queues in the order in which it takes from them, and how it takes.
    pub queues: &'a [QueueName],
    /// How it takes from them.
    pub take: Take,
    /// Whether a queue whose answer is on the way comes before those behind it.
    pub is_ordered: bool,
    /// How many jobs it takes at most.
    pub most: usize,
    /// Time for which it keeps a message invisible for others.
    pub lease: Duration,
}

/// What the messages of a queue that wait here give to a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Here<T> {
    /// A job to run.
    Gave(T),
    /// There are some, but none that it can take now.
    Blocked,
    /// There are no messages.
    Nothing,
}

/// What is known of all queues, and which pool wants jobs from which.
#[derive(Debug, Default)]
pub struct PollPlan {
    queues: BTreeMap<QueueName, State>,
    demands: BTreeMap<Arc<str>, Demand>,
    /// How long SQS took for the latest messages, if any came.
    usual: Option<Duration>,
}

impl PollPlan {
    /// The demand of a pool, to be changed.
    fn demand(&mut self, pool: &Arc<str>) -> &mut Demand {
        self.demands.entry(pool.clone()).or_default()
    }

    /// Takes jobs for a pool from the messages that wait here, which `from` gives for the place of a queue in the wish,
    /// and notes how many more it wants. A queue whose answer is on the way is waited for.
    pub fn take<T>(
        &mut self,
        wish: &Wish<'_>,
        now: Instant,
        mut from: impl FnMut(usize) -> Here<T>,
    ) -> Vec<T> {
        let (mut given, mut counts) = (Vec::new(), vec![0; wish.queues.len()]);
        let mut turns = Turns::new(wish.take, 0..wish.queues.len());
        while given.len() < wish.most
            && let Some(&at) = turns.queue()
        {
            let queue = &wish.queues[at];
            let here = from(at);
            if let Here::Gave(job) = here {
                counts[at] += 1;
                given.push(job);
                turns.gave();
                continue;
            }
            self.blocked(queue, matches!(here, Here::Blocked));
            if wish.is_ordered && self.awaits(queue, now) {
                break;
            }
            turns.had_none();
        }
        let demand = self.demand(wish.pool);
        demand.queues.clear();
        demand.queues.extend_from_slice(wish.queues);
        (demand.is_ordered, demand.lease) = (wish.is_ordered, wish.lease);
        demand.ready = wish.most - given.len();
        demand.took(&counts, now);
        given
    }

    /// The receive to begin from a queue now, if one is worthwhile. `here` is how many messages of a queue wait here.
    pub fn next(
        &self,
        queue: &QueueName,
        now: Instant,
        here: impl Fn(&QueueName) -> usize,
    ) -> Option<Receive> {
        let state = self.queues.get(queue).cloned().unwrap_or_default();
        // One receive at a time from each queue: its answer says whether another is worthwhile.
        if state.open.is_some() {
            return None;
        }
        let waiting = here(queue);
        let (mut most, mut lease, mut is_awaited) = (0, Duration::ZERO, false);
        for demand in self.demands.values() {
            let Some(at) = demand.place(queue) else { continue };
            let is_reached = !demand.is_ordered
                || demand.queues[..at].iter().all(|ahead| !self.holds_up(ahead, now, here(ahead)));
            if is_reached && demand.is_worth_a_receive(queue, waiting, now) {
                most += demand.soon(now);
                lease = demand.lease;
                // Behind the last queue there is none that could wait.
                is_awaited |= demand.is_ordered && at + 1 < demand.queues.len();
            }
        }
        let known = state.known(now);
        // A queue that is known to be empty, or that fails, holds up none.
        let is_awaited = is_awaited && matches!(known, Known::Unknown | Known::HasMore { .. });
        // A long poll would keep the queues behind waiting, unless messages are almost certain.
        let is_long = !is_awaited || known == Known::HasMore { is_full: true };
        (most > 0).then(|| Receive { most: most.min(MOST), lease, is_long, is_awaited })
    }

    /// Whether the queues behind it wait: it gives jobs, or its answer is not here yet.
    fn holds_up(&self, queue: &QueueName, now: Instant, here: usize) -> bool {
        let gives = here > 0 && self.queues.get(queue).is_none_or(|state| !state.is_blocked);
        gives || self.awaits(queue, now)
    }

    /// Whether the queues behind it wait for its answer, as it has no message here that a worker takes.
    fn awaits(&self, queue: &QueueName, now: Instant) -> bool {
        let Some(state) = self.queues.get(queue) else { return true };
        match (state.open, state.known(now)) {
            (Some(Open::Awaited(_)), _) => true,
            (Some(Open::Bell), _) | (None, Known::Empty(_) | Known::Failing) => false,
            (None, Known::Unknown | Known::HasMore { .. }) => !state.is_blocked,
        }
    }

    fn state(&mut self, queue: &QueueName) -> &mut State {
        self.queues.entry(queue.clone()).or_default()
    }

    /// A receive has begun.
    pub fn began(&mut self, queue: &QueueName, receive: &Receive, now: Instant) {
        let open = if receive.is_awaited { Open::Awaited(now) } else { Open::Bell };
        self.state(queue).open = Some(open);
    }

    /// How long the queues behind it wait for its answer, if they do: four times as long as usual, a second at most.
    pub fn patience(&self, receive: &Receive) -> Option<Duration> {
        let usual = self.usual.unwrap_or(USUAL);
        let most = if receive.is_long { (usual * 4).clamp(AWAITED.0, AWAITED.1) } else { AWAITED.1 };
        receive.is_awaited.then_some(most)
    }

    /// The open receive has waited long enough for its queue to count as empty.
    pub fn is_late(&mut self, queue: &QueueName) {
        let state = self.state(queue);
        state.open = state.open.map(|_| Open::Bell);
    }

    /// The open receive has brought this number of messages.
    pub fn answered(&mut self, queue: &QueueName, messages: usize, now: Instant) {
        let state = self.state(queue);
        let open = state.open.take();
        if messages == 0 {
            state.known = Known::Empty(now);
            return;
        }
        let is_full = messages >= MOST;
        // The new messages may be of another group or class, so the queue is not blocked until that shows.
        (state.known, state.is_blocked) = (Known::HasMore { is_full }, false);
        // Not of a bell: its time is that until the next message comes, not that of the service.
        if let Some(Open::Awaited(begun)) = open {
            self.usual = Some(now.since(begun));
        }
    }

    /// The open receive has failed: the queue holds up no other one until it answers again.
    pub fn failed(&mut self, queue: &QueueName) {
        let state = self.state(queue);
        (state.known, state.open) = (Known::Failing, None);
    }

    /// Whether messages of a queue wait here that no worker can take now.
    pub fn blocked(&mut self, queue: &QueueName, is_blocked: bool) {
        self.state(queue).is_blocked = is_blocked;
    }

    /// No worker took messages of the queue in time: no more are wanted until a pool asks again.
    pub fn nobody_took(&mut self, queue: &QueueName) {
        let of_queue = self.demands.values_mut().filter(|demand| demand.place(queue).is_some());
        of_queue.for_each(|demand| demand.ready = 0);
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
