//! A fake of Amazon SQS: the JSON protocol, standard and FIFO queues, and the faults of the real one. `tests/sqs`
//! runs the same checks on it and on moto.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

mod answer;
mod batch;
mod checksum;
mod knobs;
mod operations;
mod queue;
mod server;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

pub use knobs::Knobs;
use queue::Queue;
use serde_json::{Value, json};
use tokio::sync::{Notify, oneshot};

/// A running fake. It ends when this is dropped.
pub struct FakeSqs {
    address: SocketAddr,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// The state shared by all connections.
struct Shared {
    address: SocketAddr,
    world: Mutex<World>,
    /// Notified whenever a message may have become visible.
    changed: Notify,
}

/// All queues, and the faults.
#[derive(Default)]
struct World {
    queues: BTreeMap<String, Queue>,
    knobs: Knobs,
    calls: BTreeMap<String, u64>,
    /// Calls that have been carried out.
    done: BTreeMap<String, u64>,
    /// Added to the clock, in milliseconds.
    ahead: u64,
    /// For ids, handles and sequence numbers.
    serial: u64,
    random: u64,
}

impl FakeSqs {
    /// Starts a fake on a free port of 127.0.0.1.
    pub fn start() -> FakeSqs {
        let (stop, stopped) = oneshot::channel();
        let (shared, thread) = server::start(stopped);
        FakeSqs { address: shared.address, shared, stop: Some(stop), thread: Some(thread) }
    }

    /// `http://127.0.0.1:PORT`
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Changes the faults.
    pub fn knobs(&self, turn: impl FnOnce(&mut Knobs)) {
        turn(&mut self.world().knobs);
        self.shared.changed.notify_waiters();
    }

    /// Calls by action since the start or `forget_calls`, including throttled ones and those whose answer was dropped.
    pub fn calls(&self) -> BTreeMap<String, u64> {
        self.world().calls.clone()
    }

    /// Calls by action that have been carried out: a call is counted by [`FakeSqs::calls`] before it has its effect.
    pub fn done(&self) -> BTreeMap<String, u64> {
        self.world().done.clone()
    }

    /// Resets the counts of calls.
    pub fn forget_calls(&self) {
        self.world().calls.clear();
    }

    /// Advances the time for visibility, delays and deduplication. Open long polls notice it.
    pub fn advance(&self, by: Duration) {
        self.world().ahead += u64::try_from(by.as_millis()).expect("a few years");
        self.shared.changed.notify_waiters();
    }

    /// Bodies of all messages of a queue that are not deleted, visible or not.
    pub fn bodies(&self, queue: &str) -> Vec<String> {
        let world = self.world();
        let queue = world.queues.get(queue).unwrap_or_else(|| panic!("no queue is called {queue}"));
        queue.messages.iter().map(|message| message.body.clone()).collect()
    }

    /// How many messages were sent for a job, apart from dead letters, also without an answer.
    pub fn sent_for(&self, job: &str) -> u64 {
        let world = self.world();
        let queues = world.queues.iter().filter(|(name, _)| !name.starts_with("dlq-"));
        queues.filter_map(|(_, queue)| queue.jobs.get(job)).sum()
    }

    /// Number of visible, in-flight and delayed messages of a queue; 0 for a missing queue.
    pub fn counts(&self, queue: &str) -> [usize; 3] {
        let world = self.world();
        world.queues.get(queue).map_or([0; 3], |queue| queue.counts(world.now()))
    }

    /// For how much longer the message of a queue that is hidden for longest is hidden; zero = none is.
    pub fn hidden_for(&self, queue: &str) -> Duration {
        let world = self.world();
        let until = world
            .queues
            .get(queue)
            .and_then(|queue| queue.messages.iter().map(|message| message.visible).max());
        Duration::from_millis(until.unwrap_or(0).saturating_sub(world.now()))
    }

    /// Puts messages into a queue without a call; makes the queue if it is missing.
    pub fn put(&self, queue: &str, bodies: impl IntoIterator<Item = String>) {
        self.put_each(queue, bodies.into_iter().map(|body| (None, body)));
    }

    /// The same with messages that are sent later, each at its time in milliseconds since 1970: no receive sees one
    /// before.
    pub fn put_later(&self, queue: &str, messages: impl IntoIterator<Item = (u64, String)>) {
        self.put_each(queue, messages.into_iter().map(|(at, body)| (Some(at), body)));
    }

    fn put_each(&self, queue: &str, messages: impl Iterator<Item = (Option<u64>, String)>) {
        let origin = self.shared.address.to_string();
        let mut world = self.world();
        let act = |world: &mut World, action: &str, given: Value| {
            world
                .act(action, &given, &origin)
                .unwrap_or_else(|refused| panic!("{action}: {}", refused.body()))
        };
        let url = act(&mut world, "CreateQueue", json!({"QueueName": queue}))["QueueUrl"].clone();
        for (at, body) in messages {
            act(&mut world, "SendMessage", json!({"QueueUrl": url, "MessageBody": body}));
            let sent = world.queues.get_mut(queue).and_then(|queue| queue.messages.last_mut());
            let sent = sent.expect("it was sent");
            (sent.sent, sent.visible) = (at.unwrap_or(sent.sent), at.unwrap_or(sent.visible));
        }
        drop(world);
        self.shared.changed.notify_waiters();
    }

    /// Makes the messages of a queue older, as if they had been sent that long before.
    pub fn age(&self, queue: &str, by: Duration) {
        let by = u64::try_from(by.as_millis()).expect("a few years");
        let mut world = self.world();
        let queue = world.queues.get_mut(queue).unwrap_or_else(|| panic!("no queue is called {queue}"));
        queue.messages.iter_mut().for_each(|message| message.sent -= by);
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.shared.world()
    }
}

impl Drop for FakeSqs {
    fn drop(&mut self) {
        self.stop.take().map(|stop| stop.send(()));
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the fake ends");
        }
    }
}

impl Shared {
    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().expect("no call panics")
    }
}

impl World {
    /// Milliseconds since 1970.
    fn now(&self) -> u64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
        u64::try_from(now.as_millis()).expect("a few years") + self.ahead
    }

    fn next(&mut self) -> u64 {
        self.serial += 1;
        self.serial
    }

    /// Draws whether an event of `percent` probability happens now; the same in each run.
    fn happens(&mut self, percent: u8) -> bool {
        // A multiplicative generator; its high bits are good enough for faults.
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % 100 < u64::from(percent)
    }
}
