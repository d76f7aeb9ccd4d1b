//! The reliable queue as a source of jobs. Redis alone decides who may run a job; the ledger has the history.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redis::Direction;
use serde_json::json;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::settings::Settings;
use super::shared::{End, GONE, Left, Shared};
use broker::{Error, Fetch, Health, Notice, Renewal, Settling};
use common::{Damper, InDoubt, Owed, Unheard, lock};
use ledger::{BareSource, Delivery, Elsewhere, Handle, Ledger, WaitingJobs};
use model::verb::{Answer, Each, Fate, Refusal, Verb};
use model::{
    Class, Exists, Fence, Instance, JobId, JobState, Lease, NewJob, Next, QueueSet, Settlement, Verdict,
};
use redis_link::values::{Text, read, write_list};
use redis_link::{Arrivals, Link};

/// A Redis with the keys of the tutorial.
pub(crate) struct Reliable {
    shared: Arc<Shared>,
    /// They end with this value.
    tasks: Mutex<JoinSet<()>>,
}

/// A fetched job: id, fence, attempt and value.
type Given = (Vec<u8>, u64, u32, Vec<u8>);

impl Reliable {
    pub(super) fn new(link: Link, settings: Settings, ledger: Ledger, place: &str) -> Reliable {
        let shared = Shared {
            link,
            settings,
            complaints: ledger.complaints(),
            ledger,
            place: place.into(),
            unheard: Unheard::default(),
            in_doubt: InDoubt::default(),
            arrivals: Arrivals::new("pending".into(), Direction::Right),
            delayed: Notify::new(),
            dropped: AtomicU64::default(),
            poison: Damper::default(),
            unended: Mutex::default(),
            owed: Owed::default(),
        };
        Reliable { shared: Arc::new(shared), tasks: Mutex::default() }
    }

    /// Starts the tasks that notice new jobs and handle what is due.
    fn serve(&self) {
        let mut tasks = lock(&self.tasks);
        if tasks.is_empty() {
            tasks.spawn(self.shared.clone().listen());
            tasks.spawn(self.shared.clone().tidy());
            let shared = self.shared.clone();
            tasks.spawn(async move { shared.link.pulse().await });
        }
    }

    /// Takes jobs, or none and gives the first ones whose class Redis does not know; `judged` names classes.
    async fn take_or_judge(
        &self,
        request: &Fetch,
        judged: &[(Vec<u8>, Class)],
    ) -> Result<(Vec<Given>, Vec<(Vec<u8>, Vec<u8>)>), Error> {
        let (shared, mut is_sent) = (&self.shared, false);
        let (name, unheard) = (shared.unheard.name(), shared.unheard.all());
        let answer = shared.call("fetch jobs from", "fetch", |cmd| {
            is_sent = true;
            cmd.arg(request.workers.len()).arg(request.lease.as_secs_f64());
            write_list(cmd.arg(shared.holder(&request.instance)).arg(&name), unheard.iter());
            for names in [&request.filter.only, &request.filter.except] {
                // `take` has compared the URL's class, and the script knows none of it.
                let asked = if shared.settings.class.is_some() { &[] } else { &names[..] };
                write_list(cmd, asked.iter().map(|class| class.as_str()));
            }
            cmd.arg(2 * judged.len());
            judged.iter().for_each(|(id, class)| _ = cmd.arg(id).arg(class.as_str()));
        });
        let answer: Result<(Vec<Given>, u64, Vec<_>, u64), Error> = answer.await;
        // The script may have given jobs: the next fetch names this one, and they wait again.
        if answer.is_err() && is_sent {
            shared.unheard.add(name);
        }
        let (all, dropped, unjudged, left) = answer?;
        shared.unheard.remove(&unheard);
        if dropped > 0 {
            shared.dropped.fetch_add(dropped, Ordering::Relaxed);
            tracing::warn!(dropped, "ids in 'pending' without a value: whoever put them died half way");
        }
        // Before all are judged, the script gives none and counts none.
        if unjudged.is_empty() {
            shared.arrivals.fetched(left, all.len() == request.workers.len());
        }
        Ok((all, unjudged))
    }
}

#[async_trait]
impl BareSource for Reliable {
    fn ledger(&self) -> &Ledger {
        &self.shared.ledger
    }

    async fn take(&self, request: &Fetch) -> Result<Vec<Delivery>, Error> {
        let (shared, settings) = (&self.shared, &self.shared.settings);
        let is_other = settings.class.as_ref().is_some_and(|class| !request.filter.matches(class));
        if is_other || !request.queues.contains(&settings.queue) {
            return Ok(Vec::new());
        }
        // Here, and not when it is opened: a command that only asks needs no such tasks.
        self.serve();
        shared.owed.pay(async |left| shared.release(&request.instance, &left).await).await?;
        let expires_at = shared.link.now() + request.lease;
        let (mut all, mut unjudged) = self.take_or_judge(request, &[]).await?;
        // The script cannot read values: it asks for the classes.
        while !unjudged.is_empty() {
            let judged = unjudged.into_iter().map(|(id, value)| (id, settings.class_of(&value)));
            (all, unjudged) = self.take_or_judge(request, &judged.collect::<Vec<_>>()).await?;
        }
        let (mut good, mut poison) = (Vec::new(), Vec::new());
        for (id, fence, attempt, value) in all {
            let text = String::from_utf8(id.clone()).map_err(|_| "its id is no text".to_owned());
            let read = text.and_then(|id| Ok((settings.job(id.as_str().into(), value)?, id.into())));
            match read {
                Ok((job, id)) => {
                    let lease = Lease { job: id, fence: Fence(fence), expires_at };
                    good.push(Delivery::of(job, lease, attempt));
                }
                Err(why) => {
                    let job = String::from_utf8_lossy(&id);
                    if let Some(left_out) = shared.poison.allows(shared.link.now()) {
                        tracing::warn!(%job, why, left_out, "a value is poison; it goes to the dead letters");
                    }
                    let letter = json!({ "error": format!("poison: {why}") }).to_string();
                    poison.push((id, Fence(fence), letter));
                }
            }
        }
        if !poison.is_empty() {
            // Its end may fail: the jobs of this fetch do not wait for it.
            lock(&shared.unended).append(&mut poison);
            shared.delayed.notify_one();
        }
        Ok(good)
    }

    async fn renew(&self, leases: &[Lease], by: Duration) -> Result<Vec<Renewal>, Error> {
        let expires_at = self.shared.link.now() + by;
        let answers = self.shared.call("renew leases in", "renew", |cmd| {
            cmd.arg(by.as_secs_f64()).arg(leases.len());
            leases.iter().for_each(|lease| _ = cmd.arg(lease.job.as_str()).arg(lease.fence.0));
        });
        let answers: Vec<Text> = answers.await?;
        let renewals = leases.iter().zip(answers).map(|(lease, Text(said))| {
            let verb = format!("renew the lease of job '{}' in", lease.job);
            let refused = |why: &str| self.shared.link.refused(&verb, why);
            let extended = Lease { expires_at, ..lease.clone() };
            let renewal = Renewal::read(extended.clone(), Some(&said), refused);
            // Its end may have been settled without an answer: the next try says so.
            let is_in_doubt = || self.shared.in_doubt.contains(lease.fence);
            match matches!(renewal, Renewal::Lost(_)) && is_in_doubt() {
                true => Renewal::Renewed(extended),
                false => renewal,
            }
        });
        Ok(renewals.collect())
    }

    fn refuses(&self, next: &Next) -> Option<String> {
        let own = &self.shared.settings.queue;
        let can = next.queue == *own && next.depends.is_empty();
        (!can).then(|| format!("the broker has one queue, '{own}', in which no job waits for others"))
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let said = self.shared.end(&settlements.iter().map(end).collect::<Vec<_>>()).await?;
        let read = |(one, Text(said)): (&Settlement, &Text)| {
            let verb = format!("settle job '{}' in", one.job);
            match said == GONE {
                true => Settling::NotOurs,
                false => Settling::read(Some(said), |why| self.shared.link.refused(&verb, why)),
            }
        };
        let answers: Vec<Settling> = settlements.iter().zip(&said).map(read).collect();
        let (gone, settled): (Vec<_>, Vec<_>) =
            settlements.into_iter().zip(&said).zip(&answers).partition(|((_, Text(said)), _)| said == GONE);
        let (ends, taken): (Vec<_>, Vec<Settling>) =
            settled.into_iter().map(|((end, _), answer)| (end, answer.clone())).unzip();
        self.shared.ledger.settle(ends, &taken).await;
        self.shared.forget(gone.into_iter().map(|((end, _), _)| end).collect()).await;
        Ok(answers)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        // By id and token the script recognizes a put that is repeated.
        let named = |job: NewJob| NewJob {
            id: job.id.or_else(|| Some(Uuid::now_v7().to_string().into())),
            token: job.token.or_else(|| Some(Uuid::now_v7().simple().to_string())),
            ..job
        };
        let jobs: Vec<NewJob> = jobs.into_iter().map(named).collect();
        let values = jobs.iter().map(|job| self.shared.settings.value(job)).collect::<Result<Vec<_>, _>>()?;
        let put = || {
            self.shared.call("put jobs into", "put", |cmd| {
                cmd.arg(jobs.len());
                for (job, value) in jobs.iter().zip(&values) {
                    let skips = u8::from(job.exists == Exists::Skip);
                    cmd.arg(job.id.as_ref().map(JobId::as_str)).arg(value);
                    cmd.arg(job.delay.as_secs_f64()).arg(skips).arg(job.token.as_ref());
                }
            })
        };
        let exists: Option<String> = self.shared.link.surely(put).await?;
        if let Some(id) = exists {
            return Err(Error::Exists(id.into()));
        }
        self.shared.ledger.say(Notice::Wake(QueueSet::All));
        if jobs.iter().any(|job| !job.delay.is_zero()) {
            self.shared.delayed.notify_one();
        }
        Ok(jobs.into_iter().filter_map(|job| job.id.map(Ok)).collect())
    }

    async fn release(
        &self,
        instance: &Instance,
        lost: Vec<Handle>,
        keep: &[(JobId, Fence)],
    ) -> Result<u64, Error> {
        let canceled = lost.iter().filter(|one| one.is_canceling).map(|one| one.fence).collect();
        let left = Left { keep: keep.iter().map(|(_, fence)| *fence).collect(), canceled };
        // The earlier supervisor may have settled them without an answer.
        self.shared.in_doubt.add(left.keep.iter().copied());
        self.shared.owed.or_owed(self.shared.release(instance, &left).await, left)
    }

    /// A job that runs at another host is canceled in Redis: its supervisor hears of that with its next renewal.
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        let answer = self.shared.ledger.ask(verb, by).await?;
        let Answer::Cancel(mut each) = answer else { return Ok(answer) };
        let is_elsewhere = |one: &&mut Each| {
            matches!(
                one.fate,
                Fate::Refused(
                    Refusal::NoJob | Refusal::State { state: JobState::Waiting | JobState::Delayed }
                )
            )
        };
        let mut open: Vec<&mut Each> = each.iter_mut().filter(is_elsewhere).collect();
        if !open.is_empty() {
            let asked = self.shared.call("cancel jobs in", "cancel", |cmd| {
                write_list(cmd, open.iter().map(|one| one.job.as_str()));
            });
            let found: Vec<Text> = asked.await?;
            for (one, Text(state)) in open.iter_mut().zip(found) {
                one.fate = match state.parse() {
                    Ok(JobState::Canceling) => Fate::State(JobState::Canceling),
                    Ok(state) => Fate::Refused(Refusal::State { state }),
                    Err(_) => Fate::Refused(Refusal::NoJob),
                };
            }
        }
        Ok(Answer::Cancel(each))
    }

    async fn elsewhere(&self, jobs: &[JobId]) -> Result<Vec<Option<Elsewhere>>, Error> {
        self.shared.ended(jobs).await
    }

    async fn waiting(&self) -> Result<Vec<WaitingJobs>, Error> {
        let counted = self.shared.link.ask("count jobs in", redis::cmd("LLEN").arg("pending")).await?;
        let queue = self.shared.settings.queue.clone();
        Ok(vec![WaitingJobs { queue, count: read(counted)?, since: None }])
    }

    fn health(&self) -> Health {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let lost = (dropped > 0).then(|| format!("{dropped} ids in 'pending' had no value and were dropped"));
        let concern = lost.or_else(|| self.shared.link.concern());
        Health { trouble: self.shared.link.trouble(), concern, ..Health::default() }
    }
}

/// The end of a job as the script reads it. The text of one that is not tried again is JSON to store beside its value.
fn end(settlement: &Settlement) -> End<'_> {
    let verdict = &settlement.verdict;
    let text = match verdict {
        Verdict::Complete { result, next: None } => result.clone().unwrap_or_else(|| "null".into()),
        Verdict::Fail { failure } | Verdict::Hold { failure } => {
            json!({ "error": failure.group, "message": failure.message, "trace": failure.trace }).to_string()
        }
        Verdict::Release { counts: Some(counts), .. } if counts.is_interruption() => "lost".into(),
        Verdict::Complete { .. } | Verdict::Retry { .. } | Verdict::Release { .. } | Verdict::Canceled => {
            String::new()
        }
    };
    (settlement.job.as_str().as_bytes(), settlement.fence, verdict.word(), verdict.after(), text)
}
