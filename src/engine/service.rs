//! Implements the API: jobs by the broker, the rest by the loop.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::broadcast::Receiver;
use tokio::sync::mpsc::{Sender, UnboundedReceiver, unbounded_channel};
use tokio::sync::oneshot;

use super::count_cache::{CountCache, Counted, GLANCE, HANGS};
use super::course::{SharedSeries, named};
use super::effects::Effects;
use super::failing::Failing;
use super::fresh::{Examine, ShowSettings};
use super::host::host;
use super::judge::{Facts, concerns, judge, of_broker};
use super::output_places::OutputPlaces;
use super::page_seen::PageSeen;
use super::picture::{self, Pictures};
use super::problems::{hinted, problem, unexamined};
use super::publish;
use super::reload::Reloader;
use super::request::{Queues, Request, View, WhySubject};
use super::scraped::Scraped;
use super::series;
use super::served::{self, mark};
use super::sweeps::Sweeps;
use super::takers::Wanted;
use super::trees;
use api::{JobOutput, PauseOrder, Problem, Queued, Reloaded, Service};
use broker::{Broker, Error, EventBus};
use model::verb::{Answer, Get, Verb};
use model::{
    Change, ConfigShown, Cursor, Diagnosis, Filter, Instant, JobCounts, JobId, JobState, Meters, Millis,
    NewJob, Page, Picture, PoolsNow, PublishedEvent, QueueName, SeriesQuery, Status, Stop, Subject,
    TimeSeries, Why,
};
use outbox::Outbox;
use process::usage;
use wq::{self, Taken};

/// The service of one supervisor.
pub(super) struct ApiService {
    /// The broker of the jobs.
    pub broker: Arc<Broker>,
    /// Takes events to publish, and subscribers.
    pub event_bus: EventBus,
    /// What has failed for a while.
    pub(super) failing: Failing,
    /// The last counts of jobs by queue.
    pub count_cache: CountCache<Queues>,
    /// Requests to the loop.
    pub(super) requests: Sender<Request>,
    /// Reads the settings again.
    pub reloader: Reloader,
    /// The broker's name without secrets.
    pub broker_name: String,
    /// When the supervisor started.
    pub started: Instant,
    /// Settings for notifications.
    pub tasks: Option<Arc<wq::Settings>>,
    /// Keeps new jobs that cannot be put now.
    pub outbox: Option<Arc<Outbox>>,
    /// Finds the output of jobs.
    pub outputs: OutputPlaces,
    /// What happened to jobs over time.
    pub(super) series: SharedSeries,
    /// Looks at what runs.
    pub(super) pictures: Pictures,
    /// The page for browsers beside this supervisor.
    pub(super) page: Option<PageSeen>,
    /// Shows the settings in force.
    pub(super) show_settings: Option<ShowSettings>,
    /// Looks at what this machine lacks.
    pub(super) examine: Option<Examine>,
    /// What metrics ask for beside the loop.
    pub(super) scraped: Scraped,
    /// Orders about many jobs that go on.
    pub(super) sweeps: Sweeps,
}

#[async_trait]
impl Service for ApiService {
    fn broker(&self) -> String {
        self.broker_name.clone()
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Queued, Problem> {
        let named = named(&jobs);
        let put = served::put(&self.broker, &self.requests, jobs).await.map_err(problem);
        put.inspect(|_| self.series.put(&named, Millis(clock::wall_millis())))
    }

    fn series(&self, query: &SeriesQuery) -> Result<TimeSeries, Problem> {
        Ok(series::answer(query, &self.series.copy(query), Millis(clock::wall_millis())))
    }

    fn config(&self) -> Result<ConfigShown, Problem> {
        self.show_settings.as_ref().ok_or_else(gone).map(|show| show())
    }

    async fn doctor(&self) -> Result<Diagnosis, Problem> {
        (self.examine.as_ref().ok_or_else(gone)?)().await.map_err(unexamined)
    }

    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Problem> {
        let (news, line) = publish::of_request(&self.event_bus, &verb, &by);
        let bulk = if let Verb::Bulk(bulk) = &verb { Some(bulk.clone()) } else { None };
        let mut answer = self.broker.ask(verb, by).await.map_err(|error| self.problem(error))?;
        news.into_iter().for_each(|news| self.event_bus.tell(news));
        match (line, bulk, &answer) {
            (None, ..) => {}
            (Some(line), Some(bulk), Answer::Bulk(swept)) => {
                self.sweeps.took(&bulk, swept, line, &self.requests).await;
            }
            // The verb is carried out also when the supervisor is ending: only its line is lost then.
            (Some(line), ..) => drop(self.requests.send(Request::Log(line)).await),
        }
        if let Answer::Queues(queues) = &mut answer {
            mark(&self.broker, queues, self.own_queues().await.as_ref()).await;
        }
        Ok(answer)
    }

    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Problem> {
        self.broker.page(filter, at).await.map_err(problem)
    }

    async fn count_jobs(&self, filter: &Filter) -> Result<JobCounts, Problem> {
        self.broker.count_jobs(filter, clock::wall()).await.map_err(problem)
    }

    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Problem> {
        self.broker.count_tasks(begins, states).await.map_err(problem)
    }

    fn tasks(&self) -> Option<Arc<wq::Settings>> {
        self.tasks.clone()
    }

    async fn notify(&self, job: NewJob) -> Result<Taken, Problem> {
        if let Some(outbox) = &self.outbox {
            return outbox.put(job).await.map_err(problem);
        }
        let put = self.broker.put(vec![job]).await.map_err(problem)?.pop();
        let unsaid = || Problem::new(500, "the broker did not say which job it has taken");
        put.map(|task_id| Taken { task_id, kept: false }).ok_or_else(unsaid)
    }

    async fn news(&self) -> Receiver<Arc<PublishedEvent>> {
        // First: `hear` answers for those who have subscribed by then.
        let news = self.event_bus.listen();
        self.broker.hear().await;
        news
    }

    async fn ended(&self, id: JobId) -> Result<JobState, Problem> {
        self.broker.ended(id).await.map_err(|error| self.problem(error))
    }

    async fn output(&self, id: &JobId) -> Result<JobOutput, Problem> {
        let job = self.broker.tell(Get { job: id.clone() }, "").await.map_err(|error| self.problem(error))?;
        Ok(self.outputs.of(job))
    }

    async fn ends(
        &self,
        jobs: Vec<JobId>,
    ) -> Result<UnboundedReceiver<(JobId, Result<JobState, Problem>)>, Problem> {
        let (told, mut ends) = unbounded_channel();
        self.broker.tell_ends(jobs, told).await.map_err(problem)?;
        let (teller, told) = unbounded_channel();
        let broker = self.broker.clone();
        tokio::spawn(async move {
            loop {
                let next = tokio::select! {
                    next = ends.recv() => next,
                    // Else the task would wait for jobs that nobody asks about any more.
                    () = teller.closed() => None,
                };
                let Some((job, end)) = next else { return };
                let _ = teller.send((job, end.map_err(|error| hinted(&broker, error))));
            }
        });
        Ok(told)
    }

    async fn status(&self) -> Result<Status, Problem> {
        let (view, counted) = tokio::join!(self.view_with_trees(), self.counts(GLANCE));
        Ok(self.picture(view?, counted))
    }

    async fn why(&self, subject: Subject) -> Result<Why, Problem> {
        match subject {
            Subject::Job(id) => self.why_job(id).await,
            Subject::Slot(text) => self.why_pool(WhySubject::Slot(text)).await,
            Subject::Pool(name) => self.why_pool(WhySubject::Pool(name)).await,
        }
    }

    async fn picture_of(&self, id: JobId) -> Result<Picture, Problem> {
        let view = self.put_to_loop(Request::View).await?;
        match self.pictures.take(&id, &view.pools, view.keeper.pid).await? {
            Some(picture) => Ok(picture),
            None => Err(picture::none(&id, self.record(&id).await?.ok().as_ref(), &self.outputs.instance)),
        }
    }

    async fn meters(&self) -> Result<Meters, Problem> {
        // A scrape cannot show the age of a count: it waits longer, and leaves out an old one.
        let (view, counted) = tokio::join!(self.put_to_loop(Request::View), self.counts(HANGS));
        let (view, counted) = (view?, counted.of_now());
        let (counters, now) = (view.counters.clone(), clock::now());
        let status = self.picture(view, counted);
        Ok(Meters {
            counters,
            now: Millis(clock::wall_millis()),
            keeper_descriptors: usage::descriptors(status.keeper.pid),
            supervisor_descriptors: usage::descriptors(status.supervisor.pid),
            wal_bytes: self.broker.health().wal_bytes,
            failing: self.failing.all(now).into_iter().map(|one| (one.what, now.since(one.since))).collect(),
            outbox: self.outbox.as_ref().map(|outbox| outbox.count() as u64),
            recurring: self.scraped.recurring(&self.broker).await,
            disks: self.scraped.disks().await,
            status,
        })
    }

    async fn turn(&self) -> Result<(), Problem> {
        self.put_to_loop(Request::Turn).await
    }

    async fn reload(&self, dry_run: bool, by: String) -> Result<Reloaded, Problem> {
        self.reloader.reload(dry_run, by).await
    }

    async fn change(
        &self,
        pool: Option<String>,
        change: Change,
        how: PauseOrder,
        by: String,
    ) -> Result<PoolsNow, Problem> {
        self.put_to_loop(|answer| Request::Change { pool, change, how, by, answer }).await?
    }

    async fn at_rest(&self) -> Result<(), Problem> {
        self.put_to_loop(Request::AtRest).await
    }

    async fn stop(&self, how: Stop, by: String) -> Result<(), Problem> {
        self.requests.send(Request::Stop(how, by)).await.map_err(|_| gone())
    }
}

fn gone() -> Problem {
    Problem::unavailable("the supervisor is ending")
}

impl ApiService {
    /// The service of a supervisor with these effects.
    pub(super) fn new(
        effects: &Effects,
        requests: Sender<Request>,
        broker_name: String,
        tasks: Option<Arc<wq::Settings>>,
        outbox: Option<Arc<Outbox>>,
    ) -> ApiService {
        ApiService {
            broker: effects.calls.broker().clone(),
            event_bus: effects.tellers.event_bus().clone(),
            failing: effects.failing.clone(),
            count_cache: CountCache::default(),
            requests,
            reloader: effects.reloader.clone(),
            broker_name,
            started: clock::now(),
            tasks,
            outbox,
            series: effects.tellers.course.series.clone(),
            page: None,
            show_settings: None,
            examine: None,
            scraped: Scraped::new(effects),
            sweeps: Sweeps::default(),
            pictures: Pictures::default(),
            outputs: OutputPlaces::new(effects.logs.outputs(), effects.calls.instance()),
        }
    }

    async fn why_pool(&self, asked: WhySubject) -> Result<Why, Problem> {
        let why = self.put_to_loop(|answer| Request::Why(asked, answer)).await??;
        let queues = why.pools.iter().flat_map(|(pool, _)| pool.queues.clone()).collect();
        Ok(self.with_queues(why, queues).await)
    }

    pub(super) async fn with_queues(&self, why: Why, wanted: Vec<QueueName>) -> Why {
        let Counted { counts: mut queues, age, trouble } = self.counts(HANGS).await;
        queues.retain(|name, _| wanted.contains(name));
        let mut broker_concerns = of_broker(&self.broker, self.outbox.as_deref());
        broker_concerns.extend(self.failing.others(clock::now(), trouble.as_deref()));
        Why { queues, queues_age: age, broker_trouble: trouble, broker_concerns, ..why }
    }

    /// Sends a request to the loop and waits for the answer.
    pub(super) async fn put_to_loop<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<T>) -> Request,
    ) -> Result<T, Problem> {
        let (sender, answer) = oneshot::channel();
        self.requests.send(request(sender)).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())
    }

    /// The queues from which the pools here take jobs; None while the supervisor ends.
    async fn own_queues(&self) -> Option<BTreeSet<QueueName>> {
        let takers = self.put_to_loop(|answer| Request::Takers(Wanted::new(), answer)).await;
        takers.ok().map(|takers| takers.queues)
    }

    /// The counts of the queues, and what is wrong with the broker.
    pub(super) async fn counts(&self, patience: Duration) -> Counted<Queues> {
        let (broker, own) = (self.broker.clone(), self.own_queues().await);
        let question = async move {
            let mut queues = broker.counts().await?;
            mark(&broker, &mut queues, own.as_ref()).await;
            Ok::<_, Error>(queues)
        };
        let counted = self.count_cache.ask(patience, question).await;
        let trouble = self.broker.health().trouble.or(counted.trouble);
        Counted { trouble: trouble.or_else(|| self.failing.trouble(clock::now())), ..counted }
    }

    async fn view_with_trees(&self) -> Result<View, Problem> {
        let mut view = self.put_to_loop(Request::View).await?;
        trees::look_up(&mut view).await;
        Ok(view)
    }

    fn picture(&self, view: View, counted: Counted<Queues>) -> Status {
        let Counted { counts: queues, age: queues_age, trouble: broker_trouble } = counted;
        let (trouble, health) = (broker_trouble.as_deref(), self.broker.health());
        let concerns = concerns(&self.broker, self.outbox.as_deref(), &self.failing, trouble);
        let (verdict, reasons) = judge(&Facts { view: &view, queues: &queues, trouble, concerns });
        Status {
            schema: Status::SCHEMA.into(),
            version: env!("CARGO_PKG_VERSION").into(),
            verdict,
            reasons,
            host: host(),
            keeper: view.keeper,
            supervisor_restarts: view.restarts,
            supervisor_last_end: view.last_end,
            supervisor: usage::process(std::process::id() as i32).unwrap_or_default(),
            web: self.page.as_ref().map(|page| page.now().clone()),
            up: clock::now().since(self.started),
            stopping: view.stopping,
            stop_deadline: view.stop_deadline,
            store_bytes: health.store_bytes,
            broker: self.broker_name.clone(),
            broker_trouble,
            logs: view.logs,
            settled: view.settled,
            pools: view.pools,
            queues,
            queues_age,
        }
    }

    pub(super) fn problem(&self, error: Error) -> Problem {
        hinted(&self.broker, error)
    }
}
