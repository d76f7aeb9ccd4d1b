//! Where a page's facts come from: a supervisor's API, or a broker that no supervisor here works for.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::{Instant, timeout};

use api::Client;
use broker::Broker;
use model::verb::{Get, Queues, VerbRequest};
use model::{
    Change, ConfigShown, Cut, Diagnosis, Filter, JobCounts, JobId, JobRecord, NewJob, OutputQuery, Picture,
    PoolsNow, QueueCounts, QueueName, SeriesQuery, Status, Subject, TimeSeries, Why,
};

use crate::trouble::Trouble;

/// Limit of the wait for an answer of supervisor or broker; after it the page says that there is none.
const PATIENCE: Duration = Duration::from_secs(5);

/// The same for a look at the machine, which may take 10 s.
const LOOK: Duration = Duration::from_secs(15);

/// The two ways to the jobs.
pub enum Source {
    /// A supervisor that listens, or will again.
    Api(Client, Recent),
    /// The broker itself.
    Store(Arc<Broker>),
}

/// The latest status, which all pages share that are drawn after the same event.
#[derive(Default)]
pub struct Recent {
    status: Mutex<Option<(Instant, Arc<Status>)>>,
}

/// Age up to which one status serves several pages.
const SHARED: Duration = Duration::from_millis(200);

impl Source {
    /// The jobs of the supervisor that this client speaks to.
    pub fn of(client: Client) -> Source {
        Source::Api(client, Recent::default())
    }

    /// Carries out one verb, in the name of `by` if there is one.
    pub async fn ask<V: VerbRequest>(&self, verb: V, by: &str) -> Result<V::Answer, Trouble> {
        match self {
            Source::Api(client, _) if by.is_empty() => soon(client.ask(&verb)).await,
            Source::Api(client, _) => soon(client.asking_for(by).ask(&verb)).await,
            Source::Store(store) => soon(store.tell(verb, by)).await,
        }
    }

    /// The same for a verb that only looks.
    pub async fn look<V: VerbRequest>(&self, verb: V) -> Result<V::Answer, Trouble> {
        self.ask(verb, "").await
    }

    /// One job, whole.
    pub async fn job(&self, id: &JobId) -> Result<JobRecord, Trouble> {
        self.look(Get { job: id.clone() }).await
    }

    /// Counts jobs, up to the limit of the filter.
    pub async fn count(&self, filter: &Filter) -> Result<JobCounts, Trouble> {
        match self {
            Source::Api(client, _) => soon(client.count_jobs(filter)).await,
            Source::Store(store) => soon(store.count_jobs(filter, clock::wall())).await,
        }
    }

    /// The queues with their counts.
    pub async fn queues(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Trouble> {
        self.look(Queues {}).await
    }

    /// The status of the supervisor; none where there is none. One that is older than the latest event is asked for anew.
    pub async fn status(&self, changed: Instant) -> Result<Option<Arc<Status>>, Trouble> {
        let Source::Api(client, recent) = self else { return Ok(None) };
        let fresh = async {
            // All that come meanwhile wait here for the same answer.
            let mut kept = recent.status.lock().await;
            if let Some((at, status)) = &*kept
                && at.elapsed() < SHARED
                && *at > changed
            {
                return Ok(Some(status.clone()));
            }
            // Before the answer: an event that comes meanwhile makes it too old.
            let asked = Instant::now();
            let status = Arc::new(client.status().await?);
            *kept = Some((asked, status.clone()));
            Ok::<_, api::Error>(Some(status))
        };
        // With the wait for the lock: else each of many would wait for its turn and for an answer of its own.
        soon(fresh).await
    }

    /// Why something is in its state, with the processes of its slots. `changed` is as for the status.
    pub async fn why(&self, subject: &Subject, changed: Instant) -> Result<Why, Trouble> {
        match (self, subject) {
            (Source::Api(client, _), _) => {
                let mut why = soon(client.why(subject)).await?;
                // Processes are looked at for the status alone. Without it the rest is shown.
                let has_some = why.job.as_ref().is_none_or(|job| job.state.is_leased());
                if has_some && let Ok(Some(status)) = self.status(changed).await {
                    add_processes(&mut why, &status);
                }
                Ok(why)
            }
            // Without a supervisor there are no slots, pools and decisions to tell of.
            (Source::Store(_), Subject::Job(id)) => {
                let job = self.job(id).await?;
                let mut queues = self.queues().await?;
                queues.retain(|name, _| *name == job.queue);
                Ok(Why { job: Some(job), queues, ..Why::default() })
            }
            (Source::Store(_), Subject::Slot(_) | Subject::Pool(_)) => Err(Trouble::no_supervisor()),
        }
    }

    /// The client of the supervisor's API.
    pub fn client(&self) -> Result<&Client, Trouble> {
        match self {
            Source::Api(client, _) => Ok(client),
            Source::Store(_) => Err(Trouble::no_supervisor()),
        }
    }

    /// A part of a job's output.
    pub async fn output(
        &self,
        id: &JobId,
        query: &OutputQuery,
    ) -> Result<api::Lines<model::OutputLine>, Trouble> {
        soon(self.client()?.logs(id, query)).await
    }

    /// What the processes of a running job do now.
    pub async fn picture(&self, id: &JobId) -> Result<Picture, Trouble> {
        soon(self.client()?.picture(id)).await
    }

    /// The settings of the supervisor.
    pub async fn config(&self) -> Result<ConfigShown, Trouble> {
        soon(self.client()?.config()).await
    }

    /// What the machine of the supervisor lacks.
    pub async fn doctor(&self) -> Result<Diagnosis, Trouble> {
        within(LOOK, self.client()?.doctor()).await
    }

    /// What happened to jobs over time.
    pub async fn series(&self, query: &SeriesQuery) -> Result<TimeSeries, Trouble> {
        soon(self.client()?.series(query)).await
    }

    /// A list of jobs up to the filter's limit, and where a search was cut.
    pub async fn list(&self, filter: &Filter) -> Result<(Vec<JobRecord>, Option<Cut>), Trouble> {
        let read = async {
            let (mut jobs, mut at) = (Vec::new(), None);
            let store = match self {
                Source::Api(client, _) => {
                    let mut lines = client.list(filter).await?;
                    loop {
                        let more = lines.next().await?;
                        if more.is_empty() {
                            return Ok((jobs, lines.cut().cloned()));
                        }
                        jobs.extend(more);
                    }
                }
                Source::Store(store) => store,
            };
            loop {
                let page = store.page(filter, at).await.map_err(Trouble::from)?;
                jobs.extend(page.jobs);
                match page.next {
                    Some(_) => at = page.next,
                    None => return Ok::<_, Trouble>((jobs, page.cut)),
                }
            }
        };
        soon(read).await
    }

    /// Puts one job and gives its id.
    pub async fn put(&self, job: NewJob, by: &str) -> Result<JobId, Trouble> {
        let ids = match self {
            // The API notes itself who puts.
            Source::Api(client, _) => soon(client.asking_for(by).put(vec![job])).await?.ids,
            Source::Store(store) => soon(store.put(vec![NewJob { by: Some(by.into()), ..job }])).await?,
        };
        ids.into_iter()
            .next()
            .ok_or_else(|| Trouble::new(502, "the broker did not say which job it has taken"))
    }

    /// Changes a pool, or all pools.
    pub async fn change(
        &self,
        pool: Option<&str>,
        change: Change,
        how: &api::PauseOrder,
        by: &str,
    ) -> Result<PoolsNow, Trouble> {
        soon(self.client()?.asking_for(by).change(pool, change, how)).await
    }
}

/// Gives slots the processes that the status has of them, if it is of the same workers.
fn add_processes(why: &mut Why, status: &Status) {
    let seen = status.pools.iter().flat_map(|pool| pool.slots.iter().chain(&pool.template));
    let seen: HashMap<_, _> = seen.map(|slot| ((&slot.slot, slot.generation), &slot.process)).collect();
    for slot in why.pools.iter_mut().flat_map(|(pool, _)| pool.slots.iter_mut().chain(&mut pool.template)) {
        slot.process = seen.get(&(&slot.slot, slot.generation)).copied().cloned().flatten();
    }
}

/// An answer, or the trouble that there is none yet.
async fn soon<T, E: Into<Trouble>>(answer: impl Future<Output = Result<T, E>>) -> Result<T, Trouble> {
    within(PATIENCE, answer).await
}

async fn within<T, E: Into<Trouble>>(
    limit: Duration,
    answer: impl Future<Output = Result<T, E>>,
) -> Result<T, Trouble> {
    match timeout(limit, answer).await {
        Ok(answer) => answer.map_err(Into::into),
        Err(_) => {
            let message = format!("no answer came within {} s", limit.as_secs());
            Err(Trouble::new(504, message)
                .hint("the supervisor or its broker is very busy, stopped or hangs: taskvisor status"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_that_wait_for_a_status_are_answered_in_time() {
        let dir = tempfile::tempdir().unwrap();
        // It takes connections and never answers.
        let _silent = tokio::net::UnixListener::bind(dir.path().join("socket")).unwrap();
        let source = Source::of(Client::new(dir.path().join("socket")));
        tokio::time::pause();
        let begun = Instant::now();
        let asked = || async { source.status(begun).await.map_err(|trouble| trouble.code) };
        assert!(matches!(tokio::join!(asked(), asked(), asked()), (Err(504), Err(504), Err(504))));
        assert!(begun.elapsed() < PATIENCE * 2, "{:?}", begun.elapsed());
    }
}
