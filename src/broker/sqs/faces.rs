//! Verbs and lists for SQS from its ledger: shows what this host has seen, and cancels what runs here.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;

use super::held::Held;
use super::source::Sqs;
use crate::broker::ledger::Handle;
use crate::broker::{Admin, Error, Peers, Recovery};
use crate::model::verb::{Answer, Get, SetData, Verb, VerbRequest};
use crate::model::{
    Fence, Instance, JobId, JobState, NewJob, Payload, Presence, QueueCounts, QueueName, WorkerId,
};

#[async_trait]
impl Recovery for Sqs {
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        let held = self.take_over(&instance).await;
        let released = held.iter().filter(|one| !keep.contains(&(one.job.clone(), one.fence)));
        let mut count = 0;
        for one in released {
            count += 1;
            self.shared.let_go(&one.job, one.fence, false);
            let (queue, handle, is_over) =
                (self.shared.queue_of(&one.queue), one.handle.clone(), one.is_canceling);
            tokio::spawn(async move {
                match is_over {
                    true => queue.delete(&handle).await.ok(),
                    false => queue.hide(&handle, Duration::ZERO).await.ok(),
                }
            });
        }
        self.shared.ledger.recover(instance, keep).await;
        Ok(count)
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        self.take_over(&instance).await;
        self.shared.ledger.store().held_by(instance).await
    }
}

impl Sqs {
    /// Holds what an earlier supervisor held, as far as its lease lasts: it may yet be settled, renewed or given back.
    async fn take_over(&self, instance: &Instance) -> Vec<Handle> {
        let left = self.shared.ledger.held(instance).await;
        for one in left.iter().filter(|one| !self.shared.held.contains(&one.job)) {
            let held = Held::left_behind(one, self.shared.source(&one.queue), self.shared.now());
            self.shared.held.insert(one.job.clone(), held);
        }
        left
    }
}

#[async_trait]
impl Admin for Sqs {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        let next = if let Verb::SetData(asked) = &verb {
            self.next_body(asked).await?.map(|body| (asked.clone(), body))
        } else {
            None
        };
        let mut answer = self.shared.ledger.ask(verb, by).await?;
        if let Some((asked, body)) = next
            && self
                .shared
                .held
                .with(&asked.job, asked.fence, |held| held.next_body = Some(body.into()))
                .is_none()
        {
            let why = format!("job '{}' is run by somebody else: its data is theirs to change", asked.job);
            return Err(Error::Refused(why));
        }
        if let Answer::Queues(queues) = &mut answer {
            self.add_waiting(queues).await;
        }
        Ok(answer)
    }
}

impl Sqs {
    /// Adds the number of waiting messages, as SQS reports it, for the queues from which jobs are taken.
    async fn add_waiting(&self, queues: &mut BTreeMap<QueueName, QueueCounts>) {
        for source in self.shared.sources() {
            let counts = queues.entry(source.name.clone()).or_default();
            if let Some(waiting) = self.shared.visible(&source).await {
                counts.jobs.insert(JobState::Waiting, waiting);
                counts.jobs.retain(|_, count| *count > 0);
            }
        }
    }

    /// The body for the message of the next attempt, which is a new message, as SQS cannot change one. None for a
    /// program: the ledger refuses that.
    async fn next_body(&self, asked: &SetData) -> Result<Option<String>, Error> {
        let record =
            self.shared.ledger.store().ask(Get { job: asked.job.clone() }.verb(), String::new()).await?;
        let Answer::Get(record) = record else { return Err(Error::NoJob(asked.job.clone())) };
        if let Some(Payload::Exec(_)) = record.payload {
            return Ok(None);
        }
        let job = NewJob {
            retry: record.retry,
            time_limit: record.time_limit,
            tags: record.tags,
            ..NewJob::new(record.queue, record.class, Payload::Data(asked.data.clone()))
        };
        self.shared.bodies.write(&job).map(Some)
    }
}

#[async_trait]
impl Peers for Sqs {
    fn sign(&self, _sign: Presence) {}

    async fn leave(&self) -> Result<(), Error> {
        self.stop().await;
        Ok(())
    }
}
