//! The broker's contract on Redis: each call is one request to the script.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use uuid::Uuid;

use super::looks::{FIRST_LOOK, LOOK, later};
use super::script::SCRIPT;
use super::shared::Shared;
use super::{ends, event_stream, fetch, fleet, life, listener, lists, occur, put, reply, settle, verbs};
use broker::{
    Admin, Browse, Complaints, Error, EventBus, Feed, Fetch, Health, Notice, Peers, Recovery, Renewal,
    Settling, Source,
};
use common::{host_name, lock, stored};
use model::verb::{Answer, Verb};
use model::{
    Cursor, Fence, Fetched, Filter, Instance, Instant, JobId, JobState, Lease, NewJob, Page, Presence,
    Progress, QueueSet, Settlement, WorkerId,
};
use redis_link::{Link, Needs};

/// How to open the broker, with its clocks as parameters for tests.
#[derive(Clone)]
pub struct Options {
    /// The name of this host, with which the names of its workers begin.
    pub host: String,
    /// Identifies the state directory of this process on this host and in this boot, so no other process has the same
    /// text.
    pub place: String,
    /// The boot-time clock.
    pub now: Arc<dyn Fn() -> Instant + Send + Sync>,
    /// How far the server's clock is ahead of `now`, in microseconds; None = ask the server.
    pub ahead: Option<i64>,
}

impl Default for Options {
    fn default() -> Self {
        Options { host: host_name(), place: String::new(), now: Arc::new(clock::now), ahead: None }
    }
}

/// Jobs in a Redis with the commands of qless.
pub struct Qless {
    pub(super) shared: Arc<Shared>,
    ears: OnceLock<Ears>,
    /// What a client without them has while it waits for jobs.
    news: OnceLock<Ears>,
}

/// A task that listens, and whether it is subscribed.
type Ears = (JoinHandle<()>, watch::Receiver<bool>);

/// Settings of the connection that are special to this broker.
static NEEDS: Needs = Needs { script: SCRIPT, keys: "ql:*", expire: false, news: Some("ql:taskvisor:news") };

/// A fetch fails if the events are not subscribed to within this time.
const READY: Duration = Duration::from_secs(5);

impl Qless {
    /// Opens the Redis at `url`; `name` is shown to people. Sends no request yet.
    pub fn open(url: &str, name: &str, options: Options) -> Result<Qless, Error> {
        let now = options.now.clone();
        let link = Link::new(url, name, &NEEDS, options.ahead, move || now())?;
        let shared = Shared::new(link, options.host, options.place);
        Ok(Qless { shared, ears: OnceLock::new(), news: OnceLock::new() })
    }

    /// What is wrong with how the server stores its data; `None` if nothing is, or if the server does not allow the
    /// question.
    pub async fn unsafe_for_jobs(&self) -> Result<Option<String>, Error> {
        self.shared.link.unsafe_for_jobs().await
    }

    /// The prefix of the names of a supervisor's workers.
    fn workers(&self, instance: &Instance) -> String {
        let short: String =
            instance.as_str().chars().rev().take(8).collect::<Vec<_>>().into_iter().rev().collect();
        format!("{}-{short}-", self.shared.host)
    }

    /// Starts the listener and the firing of recurring jobs, once. The value becomes true when the listener hears
    /// events.
    fn serve(&self, instance: &Instance) -> watch::Receiver<bool> {
        let (_, ready) = self.ears.get_or_init(|| {
            let (tell, ready) = watch::channel(false);
            let channels = format!("ql:w:{}", self.workers(instance));
            let shared = self.shared.clone();
            let serve = async move {
                let hears = listener::listen(shared.clone(), channels, tell);
                tokio::join!(hears, occur::attend(&shared), shared.link.pulse());
            };
            (tokio::spawn(serve), ready)
        });
        ready.clone()
    }

    /// Whether the ends of jobs are subscribed to, by the supervisor's listener or by one for this alone.
    fn hears_ends(&self) -> watch::Receiver<bool> {
        let begin = || {
            let (tell, ready) = watch::channel(false);
            (tokio::spawn(ends::hear(self.shared.clone(), tell)), ready)
        };
        self.ears.get().unwrap_or_else(|| self.news.get_or_init(begin)).1.clone()
    }

    /// Waits until the listener is subscribed.
    async fn listen(&self, instance: &Instance) -> Result<(), Error> {
        let mut ready = self.serve(instance);
        match tokio::time::timeout(READY, ready.wait_for(|ready| *ready)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) | Err(_) => {
                let link = &self.shared.link;
                Err(link
                    .trouble_with(listener::VERB)
                    .map_or_else(|| link.silent(listener::VERB), Error::Failed))
            }
        }
    }

    /// Prepares for a fetch: listener, release of earlier leases, and due recurring jobs.
    async fn prepare(&self, request: &Fetch) -> Result<(), Error> {
        // First: from the moment a job is ours, its cancel must be heard.
        self.listen(&request.instance).await?;
        let release = async |keep: Vec<_>| self.give_back(&request.instance, &keep).await;
        self.shared.owed.pay(release).await?;
        self.shared.watch(&request.queues);
        occur::come_due(&self.shared).await;
        Ok(())
    }

    /// Releases what an earlier process of this instance held, apart from the jobs in `keep`.
    async fn give_back(&self, instance: &Instance, keep: &[(JobId, Fence)]) -> Result<u64, Error> {
        fleet::admit(&self.shared, instance).await?;
        let answer = self.shared.call("release jobs in", "taskvisor.recover", |cmd, _| {
            cmd.arg(instance.as_str()).arg(keep.len());
            for (job, fence) in keep {
                cmd.arg(job.as_str()).arg(fence.0);
            }
        });
        Ok(reply::number(&answer.await?))
    }
}

impl Drop for Qless {
    fn drop(&mut self) {
        self.ears.get().into_iter().chain(self.news.get()).for_each(|(task, _)| task.abort());
        self.shared.end_timers();
        self.shared.reporter.end();
    }
}

#[async_trait]
impl Source for Qless {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        self.prepare(&request).await?;
        let at = self.shared.link.now();
        let workers = self.workers(&request.instance);
        let (name, unheard) = (self.shared.unheard.name(), self.shared.unheard.all());
        let mut sent = None;
        let was_heard = self.shared.wakes.fetching(&request.queues);
        let answer = self.shared.link.call("fetch jobs from", "taskvisor.fetch", at, |cmd, offset| {
            sent = Some(offset);
            fetch::write(cmd, &request, &workers, &name, &unheard);
            cmd.arg(u8::from(self.shared.link.is_settling()));
        });
        let answer = answer.await.and_then(fetch::read);
        // An answer of an odd form is as good as lost: the next fetch puts the jobs back that it may have had.
        if answer.is_err() && sent.is_some() {
            // The script may have handed out jobs: the next fetch gives them back.
            self.shared.unheard.add(name);
        }
        let (due, jobs, odd, full) = answer?;
        self.shared.unheard.remove(&unheard);
        fetch::tell_odd(&self.shared, &request.queues, odd);
        self.shared.saw(&request.queues, reply::number(&full));
        let due = reply::text(&due).and_then(|due| due.parse::<f64>().ok());
        let wait = due.zip(sent).map(|(due, offset)| offset.until(due, self.shared.link.now()));
        self.shared.wake_at(&request.queues, wait);
        self.shared.wakes.fetched(was_heard, jobs.is_empty(), self.shared.link.now());
        // Counted from before the call, so that it ends here no later than at the server.
        Ok(fetch::granted(&self.shared, jobs, at + request.lease))
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let at = self.shared.link.now();
        let answer = self.shared.link.call("renew leases in", "taskvisor.renew", at, |cmd, _| {
            cmd.arg(by.as_secs_f64()).arg(self.shared.instance()).arg(leases.len());
            for lease in &leases {
                cmd.arg(lease.job.as_str()).arg(lease.fence.0);
            }
        });
        let answers = reply::array(answer.await?)?;
        Ok(leases
            .into_iter()
            .zip(answers)
            .map(|(lease, answer)| reply::renewal(Lease { expires_at: at + by, ..lease }, &answer))
            .inspect(|renewal| {
                if let Renewal::Renewed(lease) = renewal {
                    self.shared.holds.renewed(&lease.job, lease.fence);
                }
            })
            .collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let answer = self
            .shared
            .call("settle jobs in", "taskvisor.settle", |cmd, offset| {
                let at = offset.millis(self.shared.link.now());
                cmd.arg(settlements.len());
                settlements.iter().for_each(|settlement| settle::write(cmd, settlement, at));
            })
            .await?;
        let answers = reply::array(answer)?;
        let settled: Vec<Settling> = settlements
            .iter()
            .zip(answers)
            .map(|(settlement, answer)| {
                let settled = settle::answer(&settlement.job, reply::text(&answer).as_deref());
                if !matches!(settled, Settling::Failed(_)) {
                    self.shared.holds.ended(&settlement.job, settlement.fence);
                }
                if matches!(settled, Settling::Settled(_)) {
                    self.shared.awaited.ring(&settlement.job);
                }
                settled
            })
            .collect();
        // Is it one job that is another's, or was Redis emptied? The next sign of life says so.
        if settled.contains(&Settling::NotOurs) {
            self.shared.changed_sign.notify_one();
        }
        Ok(settled)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let ids: Vec<JobId> = jobs
            .iter()
            .map(|job| job.id.clone().unwrap_or_else(|| Uuid::now_v7().simple().to_string().into()))
            .collect();
        put::check(&jobs)?;
        // Ids and tokens show which jobs are there already.
        let jobs: Vec<NewJob> = jobs.into_iter().map(put::with_token).collect();
        let put =
            || self.shared.call("put jobs into", "taskvisor.put", |cmd, _| put::write(cmd, &jobs, &ids));
        reply::unless_refused(self.shared.link.surely(put).await?, |_| None)?;
        // Otherwise the listener hears of this put as of any other.
        if self.ears.get().is_none() {
            self.shared.notices.push(Notice::Wake(QueueSet::All));
        }
        Ok(ids.into_iter().map(Ok).collect())
    }

    async fn next_notice(&self) -> Notice {
        self.shared.notices.next().await
    }

    fn complaints(&self) -> Complaints {
        self.shared.complaints.clone()
    }

    fn health(&self) -> Health {
        let trouble = self.shared.link.trouble().or_else(|| self.shared.spoiled());
        let concern = self.shared.link.concern().or_else(|| lock(&self.shared.spoiled_aside).clone());
        Health { trouble, concern, ..Health::default() }
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        let written = self.shared.call("note progress in", "taskvisor.progress", |cmd, _| {
            cmd.arg(notes.len());
            for (job, fence, progress) in &notes {
                cmd.arg(job.as_str()).arg(fence.0).arg(stored::to_json(progress).unwrap_or_default());
            }
        });
        written.await.map(drop)
    }
}

#[async_trait]
impl Recovery for Qless {
    async fn admit(&self, instance: &Instance) -> Result<(), Error> {
        fleet::admit(&self.shared, instance).await
    }

    async fn recover(&self, instance: Instance, keep: Vec<(JobId, Fence)>) -> Result<u64, Error> {
        let released = self.shared.owed.or_owed(self.give_back(&instance, &keep).await, keep.clone())?;
        let now = self.shared.link.now();
        for (job, fence) in &keep {
            self.shared.holds.granted(job, *fence, now);
        }
        // Recurring jobs fire even if no worker is ready.
        self.serve(&instance);
        Ok(released)
    }

    async fn held_by(&self, instance: Instance) -> Result<Vec<(JobId, Fence, WorkerId)>, Error> {
        let answer = self
            .shared
            .call("ask about jobs in", "taskvisor.held", |cmd, _| {
                cmd.arg(instance.as_str());
            })
            .await?;
        let held = |value: Value| {
            let [job, fence, life] = reply::parts(value)?;
            let life = reply::text(&life).and_then(|life| life::id(&life));
            let life = life.ok_or_else(|| reply::odd("a worker"))?;
            Ok((reply::text(&job).unwrap_or_default().into(), Fence(reply::number(&fence)), life))
        };
        reply::array(answer)?.into_iter().map(held).collect()
    }
}

#[async_trait]
impl Admin for Qless {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        verbs::ask(&self.shared, verb, by).await
    }
}

#[async_trait]
impl Browse for Qless {
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
        lists::page(&self.shared, filter, at).await
    }

    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error> {
        lists::count_tasks(&self.shared, begins, states).await
    }

    async fn ended(&self, id: JobId) -> Result<JobState, Error> {
        let state = verbs::state(&self.shared, &id).await?;
        if state.has_ended() {
            return Ok(state);
        }
        let (bell, mut heard, mut look) = (self.shared.awaited.bell(&id), self.hears_ends(), FIRST_LOOK);
        loop {
            // Before the look at the state, so that an end in between is heard.
            let (changed, hears) = (bell.notified(), *heard.borrow_and_update());
            let state = verbs::state(&self.shared, &id).await?;
            if state.has_ended() {
                return Ok(state);
            }
            tokio::select! {
                () = changed => {}
                Ok(()) = heard.changed() => {}
                () = tokio::time::sleep(if hears { LOOK } else { look }) => look = later(look),
            }
        }
    }
}

#[async_trait]
impl Feed for Qless {
    fn publish(&self, room: EventBus) {
        self.shared.notices.publish(room);
    }

    async fn hear(&self) {
        event_stream::begin(&self.shared).await;
    }
}

#[async_trait]
impl Peers for Qless {
    fn sign(&self, sign: Presence) {
        self.shared.set_sign(sign);
    }

    async fn leave(&self) -> Result<(), Error> {
        match self.shared.take_sign() {
            Some(sign) => fleet::leave(&self.shared, &sign.instance).await,
            None => Ok(()),
        }
    }
}
