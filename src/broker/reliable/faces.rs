//! Verbs and lists of the reliable queue, from the ledger; and recovery, from Redis itself.

use async_trait::async_trait;

use super::shared::Left;
use super::source::Reliable;
use crate::broker::redis::values::read;
use crate::broker::{Admin, Error, Recovery};
use crate::model::verb::{Answer, Verb};
use crate::model::{Fence, Instance, JobId, JobState, WorkerId};

#[async_trait]
impl Recovery for Reliable {
    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        let held = self.shared.ledger.held(&instance).await.into_iter();
        self.shared.doubt(keep.iter().map(|(_, fence)| *fence), true);
        let left = Left {
            canceled: held.filter(|one| one.is_canceling).map(|one| (one.job, one.fence)).collect(),
            keep: keep.clone(),
        };
        let released = self.shared.owed.or_owed(self.shared.release(&instance, &left).await, left)?;
        self.shared.ledger.recover(instance, keep).await;
        Ok(released)
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        self.shared.ledger.store().held_by(instance).await
    }
}

#[async_trait]
impl Admin for Reliable {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        let mut answer = self.shared.ledger.ask(verb, by).await?;
        if let Answer::Queues(queues) = &mut answer {
            let counted = self.shared.link.ask("count jobs in", redis::cmd("LLEN").arg("pending")).await?;
            let counts = queues.entry(self.shared.settings.queue.clone()).or_default();
            counts.jobs.insert(JobState::Waiting, read::<u64>(counted)?);
            counts.jobs.retain(|_, count| *count > 0);
        }
        Ok(answer)
    }
}
