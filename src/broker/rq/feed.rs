//! Publishes events of RQ's jobs that happen through this supervisor. RQ itself publishes none.

use async_trait::async_trait;

use super::shared::{Held, Shared};
use super::source::Rq;
use crate::broker::{EventBus, Feed, Settling};
use crate::clock;
use crate::model::{
    JobId, JobRecord, JobState, Millis, NewJob, PublishedEvent, Settlement, What, WorkerName,
};

#[async_trait]
impl Feed for Rq {
    fn publish(&self, room: EventBus) {
        self.shared.notices.publish(room);
    }
}

impl Shared {
    /// Publishes an event of one job, if there are subscribers.
    fn tell(&self, what: What, job: &JobId, more: impl FnOnce(PublishedEvent) -> PublishedEvent) {
        if let Some(room) = self.notices.heard() {
            let event = PublishedEvent::new(what, Millis(clock::wall_millis()));
            room.tell(more(PublishedEvent { job: Some(job.clone()), ..event }));
        }
    }

    pub(super) fn tell_put(&self, job: &JobId, new: &NewJob) {
        let state = if new.delay.is_zero() { JobState::Waiting } else { JobState::Delayed };
        self.tell(What::Put, job, |event| PublishedEvent {
            queue: Some(new.queue.clone()),
            class: Some(new.class.clone()),
            state: Some(state),
            ..event
        });
    }

    pub(super) fn tell_taken(&self, job: &JobId, held: &Held, worker: WorkerName) {
        self.tell(What::Fetched, job, |event| PublishedEvent {
            state: Some(JobState::Running),
            worker: Some(worker),
            ..of(held, event)
        });
    }

    /// Publishes that `by` canceled a job, which is in this state now.
    pub(super) fn tell_canceled(&self, job: &JobRecord, state: JobState, by: &str, why: Option<String>) {
        self.tell(What::of_end(state), &job.id, |event| PublishedEvent {
            queue: Some(job.queue.clone()),
            class: Some(job.class.clone()),
            state: Some(state),
            by: Some(by.to_owned()),
            why,
            ..event
        });
    }

    /// Publishes a settlement. `held` is what was known of the job while it ran.
    pub(super) fn tell_settled(&self, settlement: &Settlement, held: &Held, settling: &Settling) {
        let (what, state) = match settling {
            Settling::Settled(state) => (What::of_end(*state), *state),
            Settling::NotOurs => (What::LockLost, JobState::Waiting),
            Settling::Failed(_) => return,
        };
        self.tell(what, &settlement.job, |event| PublishedEvent { state: Some(state), ..of(held, event) });
    }
}

fn of(held: &Held, event: PublishedEvent) -> PublishedEvent {
    PublishedEvent { queue: Some(held.queue.clone()), class: Some(held.class.clone()), ..event }
}
