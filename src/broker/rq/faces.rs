//! Verbs and lists for RQ's jobs, from RQ's own registries.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, FromRedisValue};
use serde_json::json;

use super::job::packed;
use super::record::{Row, record, state};
use super::settle::STOPPED;
use super::shared::Asked;
use super::source::Rq;
use crate::broker::redis::values::{Text, escaped, write_list};
use crate::broker::{Admin, Browse, Error, EventBus, Feed, failures};
use crate::model::verb::{
    Act, Answer, Bulk, Cancel, Done, Each, Failed, Fate, FindJobs, Number, Refusal, Swept, Verb,
};
use crate::model::{
    Cursor, Filter, JobId, JobRecord, JobState, Millis, Need, Page, PublishedEvent, QueueCounts, QueueName,
    What,
};

/// The states for which RQ has a registry, in the order of a list.
const STATES: [JobState; 7] = [
    JobState::Running,
    JobState::Waiting,
    JobState::Delayed,
    JobState::Depends,
    JobState::Failed,
    JobState::Complete,
    JobState::Canceled,
];
/// Number of queues to look at in one call: a limit on how long it blocks the server.
const QUEUES: usize = 200;
/// The most jobs read in one call.
const ROWS: u32 = 100;
/// The most ids looked at in one call, where the beginning of an id is asked for.
const IDS: u32 = 5_000;
/// A job's end is looked for as often.
const LOOK: Duration = Duration::from_millis(100);
/// A cursor's place is the number of a list times this, plus the position in that list.
const LIST: i64 = 1 << 32;

/// A job, the jobs that it needs with their states, and the jobs that need it.
type Whole = (Row, Vec<(Text, Text)>, Vec<Text>);

impl Rq {
    async fn asked<T: FromRedisValue>(&self, command: &str, args: impl FnOnce(&mut Cmd)) -> Result<T, Error> {
        self.shared.call("ask", command, args).await
    }

    async fn get(&self, id: &JobId) -> Result<JobRecord, Error> {
        let found: Option<Whole> = self.asked("get", |cmd| _ = cmd.arg(id.as_str())).await?;
        let (row, needs, needed_by) = found.ok_or_else(|| Error::NoJob(id.clone()))?;
        let needs = needs.into_iter().map(|(job, name)| Need { job: job.0.into(), state: state(&name) });
        Ok(JobRecord {
            needs: needs.filter(|need| need.state != JobState::Complete).collect(),
            needed_by: ids_of(needed_by),
            ..record(row, true)
        })
    }

    async fn queue_names(&self) -> Result<Vec<QueueName>, Error> {
        let found: Vec<Text> = self.asked("queue_names", |_| ()).await?;
        Ok(found.into_iter().map(|name| QueueName::from(name.0)).collect())
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

    /// Ids that begin so, in order: goes through all keys, some at a time.
    async fn find(&self, prefix: &str) -> Result<Vec<JobId>, Error> {
        let (mut found, mut cursor) = (BTreeSet::new(), "0".to_owned());
        loop {
            let asked = self.asked("find", |cmd| _ = cmd.arg(prefix).arg(escaped(prefix)).arg(&cursor));
            let (Text(next), ids): (Text, Vec<Text>) = asked.await?;
            found.extend(ids);
            if next == "0" || found.len() >= FindJobs::MOST {
                return Ok(ids_of(found.into_iter().take(FindJobs::MOST)));
            }
            cursor = next;
        }
    }

    async fn cancel(&self, asked: &Cancel, by: &str) -> Result<Vec<Each>, Error> {
        if let Some(fault) = asked.fault() {
            return Err(Error::Refused(fault));
        }
        let (mut answers, mut jobs) = (Vec::new(), asked.jobs.clone());
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
        let filter = Filter {
            states: vec![asked.state],
            queue: asked.queue.clone(),
            class: asked.class.clone(),
            group: asked.group.clone(),
            since: asked.since,
            limit: 0,
            ..Filter::default()
        };
        let place = asked.after.unwrap_or(0);
        let left = asked.limit.unwrap_or(u64::MAX);
        let lists = self.lists(&filter).await?;
        let page = self.stretch(&filter, &lists, Cursor { id: None, place, left }, "oldest").await?;
        let (mut swept, mut gone) = (Swept::default(), 0);
        for job in &page.jobs {
            let done = if asked.dry_run { Ok(Done {}) } else { self.change(asked.act, &job.id, by).await };
            match done {
                Ok(Done {}) => {
                    swept.count += 1;
                    gone += i64::from(!asked.dry_run);
                    if swept.jobs.len() < 10 {
                        swept.jobs.push(job.id.clone());
                    }
                }
                Err(Error::WrongState { .. } | Error::NoJob(_)) => {}
                Err(error) => return Err(error),
            }
        }
        // Removed jobs move the rest of the same list forward; the next list begins at 0.
        let next = page.next.map(|next| next.place);
        swept.next = next.map(|next| if next % LIST > 0 { next - gone } else { next });
        Ok(swept)
    }

    /// The lists that a filter needs.
    async fn lists(&self, filter: &Filter) -> Result<Vec<(QueueName, JobState)>, Error> {
        let queues = match &filter.queue {
            Some(queue) => vec![queue.clone()],
            None => self.queue_names().await?,
        };
        let wanted = |state: &JobState| filter.states.is_empty() || filter.states.contains(state);
        let states: Vec<JobState> = STATES.into_iter().filter(wanted).collect();
        Ok(states.iter().flat_map(|state| queues.iter().map(|queue| (queue.clone(), *state))).collect())
    }

    /// The place of the first of the lists from `at` on that has jobs: there may be many without any.
    async fn seek(&self, lists: &[(QueueName, JobState)], mut at: usize) -> Result<usize, Error> {
        while at < lists.len() {
            let some = &lists[at..lists.len().min(at + QUEUES)];
            let words: Vec<&str> =
                some.iter().flat_map(|(queue, state)| [queue.as_str(), state.as_str()]).collect();
            let empty: usize = self.asked("seek", |cmd| write_list(cmd, words.iter())).await?;
            at += empty;
            if empty < some.len() {
                break;
            }
        }
        Ok(at)
    }

    /// The matching jobs of one page of one list; `first` says at which end it begins, `newest` or `oldest`.
    async fn stretch(
        &self,
        filter: &Filter,
        lists: &[(QueueName, JobState)],
        at: Cursor,
        first: &str,
    ) -> Result<Page, Error> {
        let wanted = usize::try_from(at.place / LIST).unwrap_or(usize::MAX);
        let list = self.seek(lists, wanted).await?;
        let Some((queue, state)) = lists.get(list) else { return Ok(Page::default()) };
        let at = if list == wanted { at } else { Cursor { place: list as i64 * LIST, ..at } };
        let from = at.place % LIST;
        let looks = if filter.id_prefix.is_some() { IDS } else { ROWS };
        let found = self.asked::<(i64, Vec<Row>)>("page", |cmd| {
            cmd.arg(queue.as_str()).arg(state.as_str()).arg(from).arg(looks).arg(first).arg(ROWS);
            cmd.arg(filter.id_prefix.as_deref().unwrap_or_default());
        });
        let (looked, jobs) = found.await?;
        let read = jobs.len();
        let jobs = jobs.into_iter().map(|job| record(job, false));
        let most = usize::try_from(at.left).unwrap_or(usize::MAX);
        let jobs: Vec<JobRecord> = jobs.filter(|job| matches(filter, job)).take(most).collect();
        let left = at.left - jobs.len() as u64;
        // A call ends early where it has read as many jobs as it may.
        let is_over = looked < i64::from(looks) && read < ROWS as usize;
        let place = if is_over { (list as i64 + 1) * LIST } else { at.place + looked };
        let has_more = left > 0 && (!is_over || list + 1 < lists.len());
        Ok(Page { jobs, next: has_more.then_some(Cursor { id: None, place, left }) })
    }

    /// The cursor place behind a job.
    async fn behind(&self, job: &JobId, lists: &[(QueueName, JobState)]) -> Result<i64, Error> {
        let found = self.get(job).await?;
        let is_there = |list: &(QueueName, JobState)| list.0 == found.queue && list.1 == found.state;
        let Some(at) = lists.iter().position(is_there) else { return Ok(0) };
        let place = self.place(&found).await?.map_or(0, |(place, _)| place + 1);
        Ok(at as i64 * LIST + place)
    }

    /// The position of a job in its list, newest first, and how many come before it.
    async fn place(&self, job: &JobRecord) -> Result<Option<(i64, u64)>, Error> {
        let found = self.asked("place", |cmd| {
            cmd.arg(job.id.as_str()).arg(job.queue.as_str()).arg(job.state.as_str());
        });
        found.await
    }
}

fn ids_of(found: impl IntoIterator<Item = Text>) -> Vec<JobId> {
    found.into_iter().map(|id| id.0.into()).collect()
}

fn matches(filter: &Filter, job: &JobRecord) -> bool {
    let at = job.ended_at.unwrap_or(job.put_at);
    let is_of = |group: &String| job.failure.as_ref().is_some_and(|failure| failure.group == *group);
    filter.class.as_ref().is_none_or(|class| job.class == *class)
        && filter.group.as_ref().is_none_or(is_of)
        && filter.since.is_none_or(|since| at >= since)
        && filter.until.is_none_or(|until| at < until)
        && filter.tag.is_none()
        && filter.recurring.is_none()
        && !filter.tracked
}

#[async_trait]
impl Browse for Rq {
    async fn page(&self, filter: &Filter, at: Option<Cursor>) -> Result<Page, Error> {
        let lists = self.lists(filter).await?;
        let left = if filter.limit == 0 { u64::MAX } else { filter.limit.into() };
        let at = match (at, &filter.after) {
            (Some(at), _) => at,
            (None, Some(job)) => Cursor { id: None, place: self.behind(job, &lists).await?, left },
            (None, None) => Cursor { id: None, place: 0, left },
        };
        self.stretch(filter, &lists, at, "newest").await
    }

    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error> {
        let lists = self.lists(&Filter { states: states.to_vec(), ..Filter::default() }).await?;
        let mut count = 0;
        for (queue, state) in lists {
            let (mut from, mut looked) = (0, IDS);
            while looked == IDS {
                let asked = self.asked("count_tasks", |cmd| {
                    cmd.arg(queue.as_str()).arg(state.as_str()).arg(from).arg(IDS).arg(begins);
                });
                let found: u64;
                (looked, found) = asked.await?;
                count += found;
                from += looked;
            }
        }
        Ok(count)
    }

    async fn ended(&self, id: JobId) -> Result<JobState, Error> {
        loop {
            let state = self.get(&id).await?.state;
            if state.has_ended() {
                return Ok(state);
            }
            tokio::time::sleep(LOOK).await;
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
        Ok(match &verb {
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
            Verb::Failed(_) => Answer::Failed(failures::groups(self, &Failed::default()).await?),
            Verb::Bulk(it) => Answer::Bulk(self.sweep(it, &by).await?),
            Verb::Queues(_) => Answer::Queues(self.counts().await?),
            // The card has refused these already.
            Verb::List(_)
            | Verb::DependOn(_)
            | Verb::DependOff(_)
            | Verb::Prioritize(_)
            | Verb::SetData(_)
            | Verb::Tag(_)
            | Verb::Track(_)
            | Verb::Untrack(_)
            | Verb::Pause(_)
            | Verb::Resume(_)
            | Verb::ListRecurring(_)
            | Verb::ShowRecurring(_)
            | Verb::PutRecurring(_)
            | Verb::RunRecurring(_)
            | Verb::PauseRecurring(_)
            | Verb::ResumeRecurring(_)
            | Verb::RemoveRecurring(_)
            | Verb::Stats(_)
            | Verb::ClassStats(_)
            | Verb::Forget(_)
            | Verb::ShowOptions(_)
            | Verb::SetOption(_)
            | Verb::UnsetOption(_)
            | Verb::LoadOptions(_)
            | Verb::ShowFleet(_) => {
                return Err(Error::Failed(format!("RQ cannot do {}", verb.route().path)));
            }
        })
    }
}
