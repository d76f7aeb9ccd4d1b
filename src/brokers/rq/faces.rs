//! Verbs and lists for RQ's jobs, from RQ's own registries.

use std::collections::BTreeMap;

use async_trait::async_trait;
use redis::{Cmd, FromRedisValue};
use serde_json::json;

use super::ends::Results;
use super::job::packed;
use super::lists::{IDS, Place, STATES, Stretch, ids_of};
use super::record::{Row, record, state};
use super::settle::STOPPED;
use super::shared::Asked;
use super::source::Rq;
use broker::{Admin, Browse, Error, EventBus, Feed, failure_groups};
use model::verb::{
    Act, Answer, Bulk, Cancel, Done, Each, Failed, Fate, FindJobs, Number, Refusal, Swept, Verb,
};
use model::{
    Cursor, Filter, JobId, JobRecord, JobState, Millis, Need, Page, PublishedEvent, QueueCounts, QueueName,
    What,
};
use redis_link::values::{Text, write_list};

/// Number of queues to count in one call: a limit on how long it blocks the server.
const QUEUES: usize = 200;
/// A job, the jobs that it needs with their states, and the jobs that need it.
type Whole = (Row, Vec<(Text, Text)>, Vec<Text>);

impl Rq {
    pub(super) async fn asked<T: FromRedisValue>(
        &self,
        command: &str,
        args: impl FnOnce(&mut Cmd) + Send,
    ) -> Result<T, Error> {
        self.shared.call("ask", command, args).await
    }

    pub(super) async fn get(&self, id: &JobId) -> Result<JobRecord, Error> {
        let found: Option<Whole> = self.asked("get", |cmd| _ = cmd.arg(id.as_str())).await?;
        let (row, needs, needed_by) = found.ok_or_else(|| Error::NoJob(id.clone()))?;
        let needs = needs.into_iter().map(|(job, name)| Need { job: job.0.into(), state: state(&name) });
        Ok(JobRecord {
            needs: needs.filter(|need| need.state != JobState::Complete).collect(),
            needed_by: ids_of(needed_by),
            ..record(row, true)
        })
    }

    async fn counts(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Error> {
        let of = |(name, since, counts): (Text, Option<i64>, Vec<u64>)| {
            let counts = QueueCounts {
                jobs: STATES.into_iter().zip(counts).filter(|(_, count)| *count > 0).collect(),
                oldest_waiting: since.map(Millis),
                ..QueueCounts::default()
            };
            (QueueName::from(name.0), counts)
        };
        let mut counts = BTreeMap::new();
        for names in self.queue_names().await?.chunks(QUEUES) {
            let asked = self.asked::<Vec<(Text, Option<i64>, Vec<u64>)>>("queues", |cmd| {
                write_list(cmd, STATES.iter().map(|state| state.as_str()));
                write_list(cmd, names.iter().map(QueueName::as_str));
            });
            counts.extend(asked.await?.into_iter().map(of));
        }
        Ok(counts)
    }

    async fn cancel(&self, asked: &Cancel, by: &str) -> Result<Vec<Each>, Error> {
        if let Some(fault) = asked.fault() {
            return Err(Error::Refused(fault));
        }
        let (mut answers, mut jobs) = (Vec::new(), asked.jobs.clone());
        // The list grows while it is walked: a dependent may have dependents of its own.
        while let Some(job) = jobs.get(answers.len()).cloned() {
            let fate = match self.get(&job).await {
                Ok(record) => {
                    let needed_by = record.needed_by.iter().cloned();
                    let others: Vec<JobId> = needed_by.filter(|other| !jobs.contains(other)).collect();
                    if others.is_empty() || asked.dependents {
                        jobs.extend(others);
                        self.cancel_one(&record, asked.reason.as_ref(), by).await?
                    } else {
                        Fate::Refused(Refusal::NeededBy { jobs: others })
                    }
                }
                Err(Error::NoJob(_)) => Fate::Refused(Refusal::NoJob),
                Err(error) => return Err(error),
            };
            answers.push(Each { job, fate, told: None });
        }
        Ok(answers)
    }

    async fn cancel_one(&self, job: &JobRecord, why: Option<&String>, by: &str) -> Result<Fate, Error> {
        let canceled = format!(r#""canceled":{}"#, json!({"by": by, "reason": why}));
        let answer = self.asked("cancel", |cmd| {
            cmd.arg(job.id.as_str()).arg(canceled).arg(packed(STOPPED));
        });
        let (is_done, name): (bool, String) = answer.await?;
        let Ok(state) = name.parse() else { return Ok(Fate::Refused(Refusal::NoJob)) };
        if !is_done {
            return Ok(Fate::Refused(Refusal::State { state }));
        }
        if state == JobState::Canceling {
            self.shared.end(Asked::Stop, |id, _, _| *id == job.id);
        }
        self.shared.tell((What::of_end(state), state), (&job.id, &job.queue, &job.class), |event| {
            PublishedEvent { by: Some(by.to_owned()), why: why.cloned(), ..event }
        });
        Ok(Fate::State(state))
    }

    /// Retries or discards an ended job, at the request of `by`.
    async fn change(&self, act: Act, job: &JobId, by: &str) -> Result<Done, Error> {
        let (command, verb) = match act {
            Act::Retry => ("requeue", "retried"),
            Act::Discard => ("discard", "discarded"),
        };
        let answer = self.asked(command, |cmd| _ = cmd.arg(job.as_str()).arg(json!(by).to_string()));
        let (is_done, name): (bool, String) = answer.await?;
        match name.parse() {
            _ if is_done => Ok(Done {}),
            Ok(state) => Err(Error::WrongState { id: job.clone(), state, verb }),
            Err(_) => Err(Error::NoJob(job.clone())),
        }
    }

    /// Changes the matching jobs of one page.
    async fn sweep(&self, asked: &Bulk, by: &str) -> Result<Swept, Error> {
        if let Some(fault) = asked.fault() {
            return Err(Error::Refused(fault));
        }
        let mut filter = Filter {
            states: vec![asked.state],
            queue: asked.queue.clone(),
            class: asked.class.clone(),
            group: asked.group.clone(),
            since: asked.since,
            limit: 0,
            ..Filter::default()
        };
        let most = asked.limit.unwrap_or(u64::MAX);
        let lists = self.lists(&filter).await?;
        let at = asked.after.map(|ticket| self.sweeps.get(ticket));
        // A dry run changes nothing, so from the beginning it would count the same jobs once more.
        if asked.dry_run && at == Some(None) {
            let why = "where this dry run goes on is not known any more: begin it again";
            return Err(Error::Refused(why.into()));
        }
        let at = at.flatten();
        let began = at.as_ref().map(|cursor| Millis(cursor.left as i64));
        // A job that is retried and fails again stands at the end of the same list: it is not retried once more.
        filter.until = began.filter(|_| asked.act == Act::Retry).map(|began| Millis(began.0 + 1));
        let at = Place::of_cursor(at.unwrap_or_default(), &lists);
        let Stretch { jobs, next, read_at } = self.stretch(&filter, &lists, at, most, "oldest").await?;
        let mut swept = Swept::default();
        for job in &jobs {
            let done = if asked.dry_run { Ok(Done {}) } else { self.change(asked.act, &job.id, by).await };
            match done {
                Ok(Done {}) => {
                    swept.count += 1;
                    if swept.jobs.len() < 10 {
                        swept.jobs.push(job.id.clone());
                    }
                }
                // Somebody has changed it since the page was read.
                Err(Error::WrongState { .. } | Error::NoJob(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let began = began.unwrap_or(read_at).0 as u64;
        swept.next = next.and_then(|next| next.cursor(&lists, began)).map(|cursor| self.sweeps.keep(cursor));
        Ok(swept)
    }
}

#[async_trait]
impl Browse for Rq {
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
        let lists = self.lists(filter).await?;
        let all = if filter.limit == 0 { u64::MAX } else { filter.limit.into() };
        let (left, at) = match (at, &filter.after) {
            (Some(at), _) => (at.left, Place::of_cursor(at, &lists)),
            (None, Some(job)) => (all, self.behind(job, &lists).await?),
            (None, None) => (all, Place::default()),
        };
        let Stretch { jobs, next, .. } = self.stretch(filter, &lists, at, left, "newest").await?;
        let left = left - jobs.len() as u64;
        Ok(Page { next: next.and_then(|next| next.cursor(&lists, left)), jobs, cut: None })
    }

    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error> {
        let lists = self.lists(&Filter { states: states.to_vec(), ..Filter::default() }).await?;
        let mut count = 0;
        for (queue, state) in lists {
            let mut row: Vec<u8> = Vec::new();
            loop {
                let asked = self.asked("count_tasks", |cmd| {
                    cmd.arg(queue.as_str()).arg(state.as_str()).arg(&row).arg(IDS).arg(begins);
                });
                let found: u64;
                (row, found) = asked.await?;
                count += found;
                if row.is_empty() {
                    break;
                }
            }
        }
        Ok(count)
    }

    async fn ended(&self, id: JobId) -> Result<JobState, Error> {
        let mut results: Option<Results> = None;
        loop {
            let state = self.get(&id).await?.state;
            match &mut results {
                _ if state.has_ended() => return Ok(state),
                // The state is read once more after this: the job may have ended before its results were heard.
                None => results = Some(Results::of(self, &id).await),
                Some(results) => results.next().await,
            }
        }
    }
}

#[async_trait]
impl Feed for Rq {
    fn publish(&self, room: EventBus) {
        self.shared.notices.publish(room);
    }
}

#[async_trait]
impl Admin for Rq {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        // A new verb is none of RQ's until its card says so, and the contract's tests ask what the card allows.
        #[expect(clippy::wildcard_enum_match_arm)]
        let answer = match &verb {
            Verb::Get(it) => Answer::Get(self.get(&it.job).await?),
            Verb::FindJobs(FindJobs { prefix }) => Answer::FindJobs(self.find(prefix).await?),
            Verb::Before(it) => {
                let job = self.get(&it.job).await?;
                if job.state != JobState::Waiting {
                    return Err(Error::WrongState { id: job.id, state: job.state, verb: "asked that" });
                }
                let count = self.place(&job).await?.map_or(0, |(_, before)| before.min(1000));
                Answer::Before(Number { count })
            }
            Verb::Cancel(it) => Answer::Cancel(self.cancel(it, &by).await?),
            Verb::Retry(it) => Answer::Retry(self.change(Act::Retry, &it.job, &by).await?),
            Verb::Discard(it) => Answer::Discard(self.change(Act::Discard, &it.job, &by).await?),
            Verb::Failed(_) => Answer::Failed(failure_groups(self, &Failed::default()).await?),
            Verb::Bulk(it) => Answer::Bulk(self.sweep(it, &by).await?),
            Verb::Queues(_) => Answer::Queues(self.counts().await?),
            Verb::Tag(it) => Answer::Tag(self.tag(it, &by).await?),
            // The card has refused these already.
            _ => return Err(Error::Failed(format!("RQ cannot do {}", verb.route().path))),
        };
        Ok(answer)
    }
}
