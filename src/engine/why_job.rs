//! Why a job is in its state: what the broker says of it, and what is known here. A broker that is away, or that answers
//! with an error, hides nothing of the second.

use super::count_cache::HANGS;
use super::problems::problem;
use super::request::{Request, WhySubject};
use super::service::ApiService;
use api::Problem;
use broker::Error;
use model::verb::{Ability, Before, Get};
use model::{JobId, JobRecord, JobState, Why};

impl ApiService {
    /// The answer to `why job`.
    pub(super) async fn why_job(&self, id: JobId) -> Result<Why, Problem> {
        let job = match self.record(&id).await? {
            Ok(job) => job,
            Err(unsaid) => {
                let asked = WhySubject::Job { id, of: None };
                let why = self.put_to_loop(|answer| Request::Why(asked, answer)).await??;
                let why = self.with_queues(why, Vec::new()).await;
                return Ok(Why { broker_trouble: why.broker_trouble.or(Some(unsaid)), ..why });
            }
        };
        let of = Some((job.queue.clone(), job.class.clone()));
        let asked = WhySubject::Job { id: id.clone(), of };
        let before = if job.state == JobState::Waiting && self.broker.card().can(Ability::Position) {
            Some(self.broker.tell(Before { job: id }, "").await.map_err(problem)?.count)
        } else {
            None
        };
        let why = self.put_to_loop(|answer| Request::Why(asked, answer)).await??;
        let queues = vec![job.queue.clone()];
        Ok(self.with_queues(Why { job: Some(job), before, ..why }, queues).await)
    }

    /// The job as the broker has it, or why the broker does not say it. The counts learn that a broker is away before a
    /// connection does, so their reason comes after a short wait.
    pub(super) async fn record(&self, id: &JobId) -> Result<Result<JobRecord, String>, Problem> {
        let get = self.broker.tell(Get { job: id.clone() }, "");
        tokio::pin!(get);
        let found = match tokio::time::timeout(HANGS, &mut get).await {
            Ok(found) => found,
            Err(_) => match self.counts(HANGS).await.trouble {
                Some(trouble) => return Ok(Err(trouble)),
                None => get.await,
            },
        };
        match found {
            Ok(job) => Ok(Ok(job)),
            Err(error @ (Error::Lost(_) | Error::Unanswered(_) | Error::Failed(_) | Error::Disk(_))) => {
                Ok(Err(error.to_string()))
            }
            Err(error) => Err(self.problem(error)),
        }
    }
}
