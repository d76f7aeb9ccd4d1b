//! Lease renewals. A failed renewal is reported only while its job is running here.

use super::calls;
use super::effects::Effects;
use crate::clock;
use crate::model::{JobId, Lease};
use crate::wire::keeper::Order;

impl Effects {
    /// Asks the broker for longer leases.
    pub(super) fn renew(&mut self, leases: Vec<Lease>) {
        self.reports.renews(&leases);
        let (broker, events) = (self.broker.clone(), self.events.clone());
        tokio::spawn(calls::renew(broker, events, self.failing.calls.clone(), leases, self.lease));
    }

    /// Clears the complaint about a failed renewal if the job was settled or lost before the answer came.
    pub(super) fn renewal_failed(&mut self, job: &JobId) {
        if !self.reports.is_renewed(job) {
            self.failing.calls.well_for(calls::RENEWING, job.as_str(), clock::now());
        }
    }

    /// A job is settled or lost. After the last job of a life the keeper can forget that life.
    pub(super) fn bury(&mut self, job: &JobId) {
        let worker = self.reports.bury(job);
        self.renewal_failed(job);
        if let Some(worker) = worker {
            self.link.order_later(Order::Forget(worker));
        }
    }
}
