//! The reliable queue as a source of jobs. Redis alone decides who may run a job; the ledger has the history.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use redis::Value;
use serde_json::json;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::shared::Shared;
use crate::broker::ledger::{Adopted, Delivery, Ledger};
use crate::broker::lock::lock;
use crate::broker::redis::values::{read, write_list};
use crate::broker::{Error, Fetch, Health, Notice, Renewal, Settling, Source};
use crate::model::{
    Class, Exists, Failure, Fence, Fetched, JobId, JobState, Lease, NewJob, Progress, Revocation, Settlement,
    Verdict,
};

/// A Redis with the keys of the tutorial.
pub struct Reliable {
    pub(super) shared: Arc<Shared>,
    /// They end with this value.
    tasks: Mutex<JoinSet<()>>,
}

impl Reliable {
    pub(super) fn new(shared: Arc<Shared>) -> Reliable {
        Reliable { shared, tasks: Mutex::default() }
    }

    /// Starts the tasks that notice new jobs and handle what is due.
    fn serve(&self) {
        let mut tasks = lock(&self.tasks);
        if tasks.is_empty() {
            tasks.spawn(self.shared.clone().listen());
            tasks.spawn(self.shared.clone().tidy());
        }
    }

    /// Ends jobs in Redis.
    async fn end(&self, ends: &[End<'_>]) -> Result<Vec<String>, Error> {
        let in_doubt = self.shared.in_doubt();
        let answer = self.shared.call("settle jobs in", "settle", |cmd| {
            cmd.arg(ends.len());
            for (id, fence, verdict, after, text) in ends {
                let is_again = u8::from(in_doubt.contains(fence));
                cmd.arg(id).arg(fence.0).arg(verdict).arg(after.as_secs_f64()).arg(text).arg(is_again);
            }
        });
        let answer = answer.await;
        let is_unheard = matches!(answer, Err(Error::Unanswered(_)));
        self.shared.doubt(ends.iter().map(|(_, fence, ..)| *fence), is_unheard);
        let answers = read(Value::Array(answer?))?;
        if ends.iter().any(|(_, _, _, after, _)| !after.is_zero()) {
            self.shared.delayed.notify_one();
        }
        Ok(answers)
    }

    /// Takes jobs in Redis.
    async fn take(&self, request: &Fetch) -> Result<Vec<Given>, Error> {
        let settings = &self.shared.settings;
        let mut judged = Vec::new();
        loop {
            let (all, unjudged) = self.take_or_judge(request, &judged).await?;
            if unjudged.is_empty() {
                return Ok(all);
            }
            judged = unjudged.into_iter().map(|(id, value)| (id, settings.class_of(&value))).collect();
        }
    }

    /// Takes jobs, or none and gives the first ones whose class Redis does not know; `judged` names classes.
    async fn take_or_judge(
        &self,
        request: &Fetch,
        judged: &[(Vec<u8>, Class)],
    ) -> Result<(Vec<Given>, Vec<(Vec<u8>, Vec<u8>)>), Error> {
        let (shared, at) = (&self.shared, self.shared.link.now());
        let (name, unheard) = (shared.unheard.name(), shared.unheard.all(at));
        let answer = shared.call("fetch jobs from", "fetch", |cmd| {
            cmd.arg(request.workers.len()).arg(request.lease.as_secs_f64());
            write_list(cmd.arg(shared.holder(&request.instance)).arg(&name), unheard.iter());
            for names in [&request.filter.only, &request.filter.except] {
                let asked = if shared.settings.class.is_some() { &[] } else { &names[..] };
                write_list(cmd, asked.iter().map(|class| class.as_str()));
            }
            cmd.arg(2 * judged.len());
            judged.iter().for_each(|(id, class)| _ = cmd.arg(id).arg(class.as_str()));
        });
        let answer = answer.await;
        if answer.is_err() {
            shared.unheard.add(name, at + request.lease);
        }
        let (all, dropped, unjudged, left): (Vec<Given>, u64, Vec<_>, u64) = read(Value::Array(answer?))?;
        shared.unheard.remove(&unheard);
        if dropped > 0 {
            shared.dropped.fetch_add(dropped, Ordering::Relaxed);
            tracing::warn!(
                dropped,
                "ids in 'pending' have no value: whoever put them died half way; they are dropped"
            );
        }
        if unjudged.is_empty() {
            shared.arrivals.fetched(left, all.len() == request.workers.len());
        }
        Ok((all, unjudged))
    }

    /// Reads the fetched values as jobs; a value that is no job goes to the dead letters.
    async fn jobs(&self, all: Vec<Given>) -> Result<Vec<Delivery>, Error> {
        let (mut good, mut poison) = (Vec::new(), Vec::new());
        for (id, fence, attempt, value) in all {
            let text = String::from_utf8(id.clone()).map_err(|_| "its id is no text".to_owned());
            match text.and_then(|id| self.shared.settings.job(id.into(), value)) {
                Ok(job) => good.push(Delivery {
                    job,
                    is_own_id: false,
                    fence: Fence(fence),
                    attempt,
                    handle: String::new(),
                }),
                Err(why) => poison.push((id, Fence(fence), why)),
            }
        }
        for (id, _, why) in &poison {
            tracing::warn!(job = %String::from_utf8_lossy(id), why, "a value is poison; it goes to the dead letters");
        }
        if !poison.is_empty() {
            let dead = |why: &String| json!({ "error": format!("poison: {why}") }).to_string();
            let ends =
                poison.iter().map(|(id, fence, why)| (&id[..], *fence, "dead", Duration::ZERO, dead(why)));
            self.end(&ends.collect::<Vec<_>>()).await?;
            // The workers for them are free.
            self.shared.ledger.say(Notice::Wake);
        }
        Ok(good)
    }

    /// Puts jobs with their ids and values.
    async fn write(&self, jobs: &[NewJob], values: &[(String, Vec<u8>)]) -> Result<(), Error> {
        let answer = self.shared.call("put jobs into", "put", |cmd| {
            cmd.arg(jobs.len());
            for (job, (id, value)) in jobs.iter().zip(values) {
                let skips = u8::from(job.exists == Exists::Skip);
                cmd.arg(id).arg(value).arg(job.delay.as_secs_f64()).arg(skips).arg(job.token.as_ref());
            }
        });
        let answer: Vec<String> = read(Value::Array(answer.await?))?;
        match &answer[..] {
            [word, id] if word == "exists" => Err(Error::Exists(id.as_str().into())),
            _ => Ok(()),
        }
    }
}

/// A fetched job: id, fence, attempt and value.
type Given = (Vec<u8>, u64, u32, Vec<u8>);

/// An end of a job: id, fence, verdict, delay and text.
type End<'a> = (&'a [u8], Fence, &'a str, Duration, String);

#[async_trait]
impl Source for Reliable {
    async fn fetch(&self, request: Fetch) -> Result<Vec<Fetched>, Error> {
        let (shared, settings) = (&self.shared, &self.shared.settings);
        let is_other = settings.class.as_ref().is_some_and(|class| !request.filter.matches(class));
        if is_other || !request.queues.contains(&settings.queue) {
            return Ok(Vec::new());
        }
        self.serve();
        if let Some(left) = shared.owed.get() {
            shared.release(&request.instance, &left).await?;
            shared.owed.is_paid();
        }
        let at = shared.link.now();
        let good = self.jobs(self.take(&request).await?).await?;
        let given = good.into_iter().zip(request.workers.iter().copied()).collect();
        let adopted = shared.ledger.adopt(&request, given).await;
        Ok(adopted
            .into_iter()
            .filter_map(|adopted| match adopted {
                Adopted::Runs(fetched) => Some(fetched),
                // Only happens to messages with ids and handles of their own; here clients choose the ids.
                Adopted::Complete | Adopted::Held(_) => None,
            })
            .map(|fetched| Fetched {
                lease: Lease { expires_at: at + request.lease, ..fetched.lease },
                ..fetched
            })
            .collect())
    }

    async fn renew(&self, leases: Vec<Lease>, by: Duration) -> Result<Vec<Renewal>, Error> {
        let expires_at = self.shared.link.now() + by;
        let answer = self.shared.call("renew leases in", "renew", |cmd| {
            cmd.arg(by.as_secs_f64()).arg(leases.len());
            for lease in &leases {
                cmd.arg(lease.job.as_str()).arg(lease.fence.0);
            }
        });
        let (answer, noted) = tokio::join!(answer, self.shared.ledger.renew(leases.clone(), by));
        let held: Vec<bool> = read(Value::Array(answer?))?;
        let renewals =
            leases.into_iter().zip(held).zip(noted).map(|((lease, is_held), noted)| match is_held {
                true => Ledger::renewal(Lease { expires_at, ..lease }, noted),
                false => Renewal::Lost(Revocation::LockLost),
            });
        Ok(renewals.collect())
    }

    async fn settle(&self, settlements: Vec<Settlement>) -> Result<Vec<Settling>, Error> {
        let settlements = self.shared.ledger.in_force(settlements).await.into_iter();
        let settlements: Vec<Settlement> = settlements.map(|settlement| self.possible(settlement)).collect();
        let ends: Vec<End<'_>> = settlements.iter().map(end).collect();
        let answers = self.end(&ends).await?;
        let answers: Vec<Settling> =
            settlements.iter().zip(&answers).map(|(settlement, said)| settled(settlement, said)).collect();
        let noted = settlements.into_iter().zip(&answers).filter_map(|(settlement, answer)| match answer {
            // Another client has written a result in the meantime.
            Settling::Settled(JobState::Complete) if !is_complete(&settlement.verdict) => {
                Some(Settlement { verdict: Verdict::Complete { result: None, next: None }, ..settlement })
            }
            Settling::Settled(_) => Some(settlement),
            Settling::NotOurs | Settling::Failed(_) => None,
        });
        self.shared.ledger.settle(noted.collect()).await;
        Ok(answers)
    }

    async fn put(&self, jobs: Vec<NewJob>) -> Result<Vec<Result<JobId, Error>>, Error> {
        let token = |job: &NewJob| job.token.clone().or_else(|| Some(Uuid::now_v7().simple().to_string()));
        let jobs: Vec<NewJob> = jobs.into_iter().map(|job| NewJob { token: token(&job), ..job }).collect();
        let id = |job: &NewJob| job.id.as_ref().map_or_else(|| Uuid::now_v7().to_string(), JobId::to_string);
        let values = jobs.iter().map(|job| Ok((id(job), self.shared.settings.value(job)?)));
        let values = values.collect::<Result<Vec<_>, Error>>()?;
        match self.write(&jobs, &values).await {
            Err(Error::Unanswered(why)) => {
                self.write(&jobs, &values).await.map_err(|_| Error::Unanswered(why))?;
            }
            answered => answered?,
        }
        self.shared.ledger.say(Notice::Wake);
        if jobs.iter().any(|job| !job.delay.is_zero()) {
            self.shared.delayed.notify_one();
        }
        Ok(values.into_iter().map(|(id, _)| Ok(id.into())).collect())
    }

    async fn next_notice(&self) -> Notice {
        self.shared.ledger.next_notice().await
    }

    fn health(&self) -> Health {
        let dropped = self.shared.dropped.load(Ordering::Relaxed);
        let half =
            || (dropped > 0).then(|| format!("{dropped} ids in 'pending' had no value and were dropped"));
        Health {
            trouble: self.shared.link.trouble(),
            concern: self.shared.ledger.concern().or_else(half),
            ..self.shared.ledger.health()
        }
    }

    async fn progress(&self, notes: Vec<(JobId, Fence, Progress)>) -> Result<(), Error> {
        self.shared.ledger.progress(notes).await;
        Ok(())
    }
}

impl Reliable {
    /// Changes a verdict that is not possible here: a job can go on in this queue only.
    fn possible(&self, settlement: Settlement) -> Settlement {
        let own = &self.shared.settings.queue;
        if let Verdict::Complete { next: Some(next), .. } = &settlement.verdict
            && (next.queue != *own || !next.depends.is_empty())
        {
            let why = format!("the broker has one queue, '{own}', in which no job waits for others");
            let verdict = Verdict::Hold { failure: next.refused(&why) };
            return Settlement { verdict, ..settlement };
        }
        settlement
    }
}

fn end(settlement: &Settlement) -> End<'_> {
    let now = Duration::ZERO;
    let (verdict, after, text) = match &settlement.verdict {
        Verdict::Complete { next: Some(next), .. } => ("next", next.delay, String::new()),
        Verdict::Complete { result, next: None } => {
            ("complete", now, result.clone().unwrap_or_else(|| "null".into()))
        }
        Verdict::Retry { after, .. } => ("retry", *after, String::new()),
        Verdict::Release { after, counts } => {
            let is_lost = counts.is_some_and(|counts| counts.is_interruption());
            ("release", *after, if is_lost { "lost".into() } else { String::new() })
        }
        Verdict::Fail { failure } | Verdict::Hold { failure } => ("dead", now, dead(failure)),
        Verdict::Canceled => ("canceled", now, String::new()),
    };
    (settlement.job.as_str().as_bytes(), settlement.fence, verdict, after, text)
}

/// The JSON stored for a job that is not tried again, beside its value.
fn dead(failure: &Failure) -> String {
    json!({ "error": failure.group, "message": failure.message, "trace": failure.trace }).to_string()
}

fn is_complete(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Complete { .. })
}

fn settled(settlement: &Settlement, said: &str) -> Settling {
    Settling::Settled(match (said, &settlement.verdict) {
        ("not_ours", _) => return Settling::NotOurs,
        ("complete", _) => JobState::Complete,
        (_, verdict) if is_complete(verdict) => JobState::Complete,
        ("dead", Verdict::Hold { .. }) => JobState::Held,
        ("dead", _) => JobState::Failed,
        ("canceled", _) => JobState::Canceled,
        ("delayed", _) => JobState::Delayed,
        _ => JobState::Waiting,
    })
}
