//! What people ask of SQS beyond its ledger, and how a supervisor leaves it.

use std::sync::atomic::Ordering;

use async_trait::async_trait;

use super::held::Held;
use super::source::Sqs;
use broker::{Admin, Error, Peers};
use model::verb::{Answer, Get, SetData, VerbRequest};
use model::{NewJob, Payload, Presence};

impl Sqs {
    /// Gives a running job other data, for its next attempt.
    pub(super) async fn set_data(&self, asked: SetData, by: String) -> Result<Answer, Error> {
        let body = self.next_body(&asked).await?;
        let answer = self.shared.ledger.ask(asked.clone().verb(), by).await?;
        let is_here = body.is_none_or(|body| {
            let change = |held: &mut Held| held.next_body = Some(body.into());
            self.shared.held.with(&asked.job, asked.fence, change).is_some()
        });
        if !is_here {
            let why = format!("job '{}' is run by somebody else: its data is theirs to change", asked.job);
            return Err(Error::Refused(why));
        }
        Ok(answer)
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

    fn stopping(&self) {
        self.shared.stopping();
    }

    fn is_rested(&self) -> bool {
        self.shared.open.load(Ordering::SeqCst) == 0
    }
}
