//! Verbs of a broker with a ledger: about the jobs that this host has seen.

use super::Ledger;
use broker::{Admin, Error};
use model::verb::{Answer, Cancel, Each, Fate, Get, Refusal, Verb, VerbRequest};
use model::{JobId, JobState};

impl Ledger {
    /// Carries out a verb, as far as the ledger can.
    pub async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        if let Verb::Cancel(asked) = verb {
            return self.cancel(asked, by).await.map(Answer::Cancel);
        }
        self.store().ask(verb, by).await
    }

    /// Cancels those that run here, and refuses the rest: the ledger cannot cancel jobs that wait in the broker.
    async fn cancel(&self, asked: Cancel, by: String) -> Result<Vec<Each>, Error> {
        let (mut answers, mut running) = (Vec::new(), Vec::new());
        for job in asked.jobs {
            match self.state(&job).await? {
                Some(JobState::Running | JobState::Canceling) => running.push(job),
                Some(state) => {
                    let fate = Fate::Refused(Refusal::State { state });
                    answers.push(Each { job, fate, told: None });
                }
                None => answers.push(Each { job, fate: Fate::Refused(Refusal::NoJob), told: None }),
            }
        }
        if !running.is_empty() {
            let ending = Verb::Cancel(Cancel { jobs: running, ..asked });
            if let Answer::Cancel(ended) = self.store().ask(ending, by).await? {
                answers.extend(ended);
            }
        }
        Ok(answers)
    }

    /// The state of a job by the ledger.
    pub async fn state(&self, job: &JobId) -> Result<Option<JobState>, Error> {
        match self.store().ask(Get { job: job.clone() }.verb(), String::new()).await {
            Ok(answer) => Ok(Get::answer(answer).map(|record| record.state)),
            Err(Error::NoJob(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
