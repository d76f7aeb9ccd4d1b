//! What becomes of jobs whose messages AWS itself moves to a dead-letter queue.

use std::time::Duration;

use super::queue::Queue;
use super::redrive::Redrive;
use super::shared::Shared;
use super::source_queue::SourceQueue;
use ledger::{Elsewhere, Received};
use model::{Failure, Instant, JobId, JobRecord, JobState};

/// Time for which a policy that was read is taken for the one in force.
const TRUSTED: Duration = Duration::from_secs(60);
/// How long a question about a job waits for the policy of its queue.
const PATIENCE: Duration = Duration::from_secs(1);

impl Shared {
    /// What AWS does with the message of a job that waits, if that is known.
    pub(super) async fn fate(&self, job: &JobRecord) -> Option<String> {
        if !matches!(job.state, JobState::Waiting | JobState::Delayed) {
            return None;
        }
        let received = self.ledger.received(job.id.clone()).await?;
        let queue = self.queue_of(&job.queue);
        tokio::time::timeout(PATIENCE, self.policy(&queue)).await.ok()??.fate(received)
    }

    /// A long receive, which began then, has found the queue empty. Jobs that nobody can hold any more, and whose messages
    /// were received as often as the queue allows, have failed: none of them is handed out again.
    pub(super) async fn bury(&self, source: &SourceQueue, began: Instant, lease: Duration) {
        let waiting = self.ledger.received_before(&source.name, began, lease).await;
        if waiting.is_empty() {
            return;
        }
        // Only now, as nearly always no job waits for so long: the policy costs a request.
        let Some(policy) = self.policy(&source.queue).await else { return };
        let failed = |Received { job, times }: Received| Some((job, ended(policy.moved(times)?)));
        let buried: Vec<(JobId, Elsewhere)> = waiting.into_iter().filter_map(failed).collect();
        self.ledger.learn(buried).await;
    }

    /// The message of a job was found among the dead letters: if the job waits here, AWS itself has moved it.
    pub(super) async fn was_buried(&self, job: JobId, dead: &Queue) {
        let moved = format!("AWS has moved it to the dead-letter queue '{}'", dead.name);
        self.ledger.learn(vec![(job, ended(moved))]).await;
    }

    /// The policy of a queue; None = it has none, or that is not known, which is no answer to keep.
    async fn policy(&self, queue: &Queue) -> Option<Redrive> {
        let mut known = queue.redrive.lock().await;
        let now = self.now();
        if let Some((policy, _)) = known.as_ref().filter(|(_, at)| now.since(*at) < TRUSTED) {
            return policy.clone();
        }
        let policy = queue.attributes(self.client.redrive(&queue.name).await)?;
        *known = Some((policy.clone(), now));
        policy
    }
}

fn ended(fate: String) -> Elsewhere {
    Elsewhere::Failed(Failure { group: "dead letter".into(), message: fate, trace: None })
}
