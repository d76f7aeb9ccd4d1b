//! What the supervisor asks of its broker: under which name, for how long, and where the answers go.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::Sender;

use super::burst;
use super::calls;
use super::failing::Failing;
use super::reports::Batch;
use broker::{Broker, Complaints, Fetch};
use model::{Class, ClassFilter, Instance, JobId, Lease, QueueName, Take, WorkerId};
use supervisor::Event;

/// The calls to the broker. None is awaited here: an event answers each.
pub(super) struct BrokerCalls {
    broker: Arc<Broker>,
    events: Sender<Event>,
    /// The holder of the leases.
    instance: Instance,
    /// How long a lease is asked for.
    lease: Duration,
    failing: Failing,
}

impl BrokerCalls {
    /// Calls to this broker, whose failures are those of `failing`.
    pub(super) fn new(
        broker: Arc<Broker>,
        events: Sender<Event>,
        instance: Instance,
        lease: Duration,
        failing: Failing,
    ) -> BrokerCalls {
        BrokerCalls { broker, events, instance, lease, failing }
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        &self.broker
    }

    pub(super) fn instance(&self) -> &Instance {
        &self.instance
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Asks for leases of this length from now on.
    pub(super) fn set_lease(&mut self, lease: Duration) {
        self.lease = lease;
    }

    /// Fetches a job for each of these workers of the pool.
    pub(super) fn fetch(
        &self,
        (number, pool): (u16, Arc<str>),
        queues: Vec<QueueName>,
        take: Take,
        filter: ClassFilter,
        workers: Vec<WorkerId>,
    ) {
        let (instance, lease) = (self.instance.clone(), self.lease);
        let request = Fetch { instance, queues, take, filter, pool, workers, lease };
        let (broker, events, wrong) = self.shared();
        tokio::spawn(calls::fetch(broker, events, wrong, number, request));
    }

    /// Asks for longer leases.
    pub(super) fn renew(&self, leases: Vec<Lease>) {
        self.failing.renewing.asked(&leases);
        let (broker, events, renewing) = (self.broker.clone(), self.events.clone(), &self.failing.renewing);
        tokio::spawn(calls::renew(broker, events, renewing.clone(), leases, self.lease));
    }

    /// This job needs no renewal any more.
    pub(super) fn ended(&self, job: &JobId) {
        self.failing.renewing.ended(job, clock::now());
    }

    /// Sends reports on jobs.
    pub(super) fn send(&self, batch: Batch) {
        let (broker, events, wrong) = self.shared();
        tokio::spawn(batch.send(broker, events, wrong));
    }

    /// Asks whether these queues are empty, for a burst.
    pub(super) fn ask_idle(&self, queues: Vec<QueueName>, unknown: Vec<Class>) {
        tokio::spawn(burst::ask_idle(self.broker.clone(), self.events.clone(), queues, unknown));
    }

    /// Asks how many jobs wait in these queues.
    pub(super) fn ask_waiting(&self, pool: u16, queues: Vec<QueueName>) {
        tokio::spawn(calls::ask_waiting(self.broker.clone(), self.events.clone(), pool, queues));
    }

    fn shared(&self) -> (Arc<Broker>, Sender<Event>, Complaints) {
        (self.broker.clone(), self.events.clone(), self.failing.calls.clone())
    }
}
