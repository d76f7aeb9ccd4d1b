//! Lease renewals, and the ends of jobs that need none any more.

use super::calls;
use super::effects::Effects;
use model::{JobId, Lease};
use wire::keeper::Order;

impl Effects {
    /// Asks the broker for longer leases.
    pub(super) fn renew(&mut self, leases: Vec<Lease>) {
        self.failing.renewing.asked(&leases);
        let (broker, events) = (self.broker.clone(), self.events.clone());
        tokio::spawn(calls::renew(broker, events, self.failing.renewing.clone(), leases, self.lease));
    }

    /// A job is settled or lost. After the last job of a life the keeper can forget that life.
    pub(super) fn bury(&mut self, job: &JobId) {
        self.failing.renewing.ended(job, clock::now());
        if let Some(worker) = self.reports.bury(job) {
            self.link.order_later(Order::Forget(worker));
        }
    }
}
