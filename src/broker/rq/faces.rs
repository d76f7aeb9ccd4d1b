//! Verbs and lists for RQ's jobs, from RQ's own registries.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use redis::{Cmd, FromRedisValue, Value};
use serde_json::json;

use super::job::packed;
use super::record::{ids, record, state};
use super::settle::STOPPED;
use super::shared::Asked;
use super::source::Rq;
use crate::broker::redis::values::{array, read, some_number, text};
use crate::broker::{Admin, Browse, Error, failures};
use crate::model::verb::{
    Act, Answer, Bulk, Cancel, Done, Each, Failed, Fate, FindJobs, Number, Refusal, Swept, Verb,
};
use crate::model::{Cursor, Filter, JobId, JobRecord, JobState, Millis, Need, Page, QueueCounts, QueueName};

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
/// The most jobs read in one call.
const ROWS: u32 = 100;
/// The most ids looked at in one call, where the beginning of an id is asked for.
const IDS: u32 = 5_000;
/// A job's end is looked for as often.
const LOOK: Duration = Duration::from_millis(100);
/// A cursor's place is the number of a list times this, plus the position in that list.
const LIST: i64 = 1 << 32;

impl Rq {
    async fn asked<T: FromRedisValue>(&self, command: &str, args: impl FnOnce(&mut Cmd)) -> Result<T, Error> {
        read(self.shared.call("ask", command, args).await?)
    }

    async fn words(&self, command: &str, args: impl FnOnce(&mut Cmd)) -> Result<Vec<String>, Error> {
        Ok(self.asked::<Vec<Value>>(command, args).await?.iter().filter_map(text).collect())
    }

    async fn get(&self, id: &JobId) -> Result<JobRecord, Error> {
        let none = || Error::NoJob(id.clone());
        let found: Vec<Value> = self.asked("get", |cmd| _ = cmd.arg(id.as_str())).await?;
        let [found, needs, needed_by] = <[Value; 3]>::try_from(found).map_err(|_| none())?;
        let mut job = record(found, true).ok_or_else(none)?;
        let needs = ids(needs);
        job.needs = needs
            .chunks_exact(2)
            .map(|pair| Need { job: pair[0].clone(), state: state(pair[1].as_str()) })
            .filter(|need| need.state != JobState::Complete)
            .collect();
        job.needed_by = ids(needed_by);
        Ok(job)
    }

    async fn counts(&self) -> Result<BTreeMap<QueueName, QueueCounts>, Error> {
        let found = self.asked::<Vec<Value>>("queues", |cmd| {
            cmd.arg(STATES.len());
            STATES.iter().for_each(|state| _ = cmd.arg(state.as_str()));
        });
        let mut all = BTreeMap::new();
        for queue in found.await? {
            let words = array(queue)?;
            let mut words = words.iter().filter_map(text);
            let (Some(name), Some(since)) = (words.next(), words.next()) else { continue };
            let counts = STATES.into_iter().zip(words.filter_map(|count| count.parse::<u64>().ok()));
            let counts = QueueCounts {
                jobs: counts.filter(|(_, count)| *count > 0).collect(),
                oldest_waiting: since.parse().ok().map(Millis),
                ..QueueCounts::default()
            };
            all.insert(QueueName::from(name), counts);
        }
        Ok(all)
    }

    async fn cancel(&self, asked: &Cancel, by: &str) -> Result<Vec<Each>, Error> {
        if let Some(fault) = asked.fault() {
            return Err(Error::Refused(fault));
        }
        let canceled = format!(r#""canceled":{}"#, json!({"by": by, "reason": asked.reason}));
        let (mut answers, mut at) = (Vec::new(), 0);
        let mut jobs = asked.jobs.clone();
        while let Some(job) = jobs.get(at).cloned() {
            at += 1;
            let record = match self.get(&job).await {
                Ok(record) => record,
                Err(Error::NoJob(_)) => {
                    answers.push(Each { job, fate: Fate::Refused(Refusal::NoJob), told: None });
                    continue;
                }
                Err(error) => return Err(error),
            };
            let needed_by = record.needed_by.iter().cloned();
            let others: Vec<JobId> = needed_by.filter(|other| !jobs.contains(other)).collect();
            let fate = if !others.is_empty() && !asked.dependents {
                Fate::Refused(Refusal::NeededBy { jobs: others })
            } else {
                jobs.extend(others);
                let fate = self.cancel_one(&job, &canceled).await?;
                if let Fate::State(state) = fate {
                    self.shared.tell_canceled(&record, state, by, asked.reason.clone());
                }
                fate
            };
            answers.push(Each { job, fate, told: None });
        }
        Ok(answers)
    }

    /// Cancels a job; `canceled` is the entry for its history.
    async fn cancel_one(&self, job: &JobId, canceled: &str) -> Result<Fate, Error> {
        let words =
            self.words("cancel", |cmd| _ = cmd.arg(job.as_str()).arg(canceled).arg(packed(STOPPED))).await?;
        Ok(match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["canceled"] | ["ended", "canceled"] => Fate::State(JobState::Canceled),
            ["canceling"] => {
                self.shared.end(Asked::Stop, |id, _, _| id == job);
                Fate::State(JobState::Canceling)
            }
            ["ended", status] => Fate::Refused(Refusal::State { state: state(status) }),
            _ => Fate::Refused(Refusal::NoJob),
        })
    }

    /// Retries or discards an ended job, at the request of `by`.
    async fn change(&self, act: Act, job: &JobId, by: &str) -> Result<(), Error> {
        let (command, verb) = match act {
            Act::Retry => ("requeue", "retried"),
            Act::Discard => ("discard", "discarded"),
        };
        let words = self.words(command, |cmd| _ = cmd.arg(job.as_str()).arg(json!(by).to_string())).await?;
        match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["done"] => Ok(()),
            ["state", status] => Err(Error::WrongState { id: job.clone(), state: state(status), verb }),
            _ => Err(Error::NoJob(job.clone())),
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
        for job in page.jobs.iter().take(usize::try_from(left).unwrap_or(usize::MAX)) {
            let done = if asked.dry_run { Ok(()) } else { self.change(asked.act, &job.id, by).await };
            match done {
                Ok(()) => {
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
        // Removed jobs move the rest of the same list forward.
        let next = page.next.map(|next| next.place);
        swept.next = next.map(|next| if next / LIST == place / LIST { next - gone } else { next });
        Ok(swept)
    }

    /// The lists that a filter needs.
    async fn lists(&self, filter: &Filter) -> Result<Vec<(QueueName, JobState)>, Error> {
        let queues = match &filter.queue {
            Some(queue) => vec![queue.clone()],
            None => {
                let found: Vec<Value> = self.asked("queues", |cmd| _ = cmd.arg(0)).await?;
                let first = |queue: Value| array(queue).ok()?.first().and_then(text);
                found.into_iter().filter_map(first).map(QueueName::from).collect()
            }
        };
        let wanted = |state: &JobState| filter.states.is_empty() || filter.states.contains(state);
        let states: Vec<JobState> = STATES.into_iter().filter(wanted).collect();
        Ok(states.iter().flat_map(|state| queues.iter().map(|queue| (queue.clone(), *state))).collect())
    }

    /// The matching jobs of one page of one list; `first` says at which end it begins, `newest` or `oldest`.
    async fn stretch(
        &self,
        filter: &Filter,
        lists: &[(QueueName, JobState)],
        at: Cursor,
        first: &str,
    ) -> Result<Page, Error> {
        let list = usize::try_from(at.place / LIST).unwrap_or(usize::MAX);
        let Some((queue, state)) = lists.get(list) else { return Ok(Page::default()) };
        let from = at.place % LIST;
        let looks = if filter.id_prefix.is_some() { IDS } else { ROWS };
        let found = self.asked::<(i64, Vec<Value>)>("page", |cmd| {
            cmd.arg(queue.as_str()).arg(state.as_str()).arg(from).arg(looks).arg(first).arg(ROWS);
            cmd.arg(filter.id_prefix.as_deref().unwrap_or_default());
        });
        let (looked, jobs) = found.await?;
        let read = jobs.len();
        let jobs = jobs.into_iter().filter_map(|job| record(job, false));
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
        let is_there =
            |(queue, state): &&(QueueName, JobState)| *queue == found.queue && *state == found.state;
        let Some(at) = lists.iter().position(|list| is_there(&list)) else { return Ok(0) };
        let place = self.place(&found).await?.map_or(0, |(place, _)| place + 1);
        Ok(at as i64 * LIST + place)
    }

    /// The position of a job in its list, newest first, and how many come before it.
    async fn place(&self, job: &JobRecord) -> Result<Option<(i64, u64)>, Error> {
        let found = self.asked::<Vec<Value>>("place", |cmd| {
            cmd.arg(job.id.as_str()).arg(job.queue.as_str()).arg(job.state.as_str());
        });
        let found = found.await?;
        let number = |at: usize| found.get(at).and_then(some_number);
        Ok(number(0).zip(number(1)).map(|(place, before): (i64, i64)| (place, before.max(0) as u64)))
    }
}

fn matches(filter: &Filter, job: &JobRecord) -> bool {
    let at = job.ended_at.unwrap_or(job.put_at);
    let is =
        |wanted: &Option<String>, is: Option<&str>| wanted.as_deref().is_none_or(|word| is == Some(word));
    filter.class.as_ref().is_none_or(|class| job.class == *class)
        && is(&filter.group, job.failure.as_ref().map(|failure| failure.group.as_str()))
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
        let at = match (at, &filter.after) {
            (Some(at), _) => at,
            (None, after) => {
                let left = if filter.limit == 0 { u64::MAX } else { filter.limit.into() };
                let place = match after {
                    Some(job) => self.behind(job, &lists).await?,
                    None => 0,
                };
                Cursor { id: None, place, left }
            }
        };
        self.stretch(filter, &lists, at, "newest").await
    }

    async fn count_tasks(&self, begins: &str, states: &[JobState]) -> Result<u64, Error> {
        let lists = self.lists(&Filter { states: states.to_vec(), ..Filter::default() }).await?;
        let mut count = 0;
        for (queue, state) in lists {
            let mut from = 0;
            loop {
                let found = self.asked::<(i64, u64)>("count_tasks", |cmd| {
                    cmd.arg(queue.as_str()).arg(state.as_str()).arg(from).arg(IDS).arg(begins);
                });
                let (looked, found) = found.await?;
                count += found;
                from += looked;
                if looked < i64::from(IDS) {
                    break;
                }
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
impl Admin for Rq {
    async fn ask(&self, verb: Verb, by: String) -> Result<Answer, Error> {
        let done = |()| Done {};
        Ok(match &verb {
            Verb::Get(it) => Answer::Get(self.get(&it.job).await?),
            Verb::FindJobs(FindJobs { prefix }) => {
                let pattern: String = prefix
                    .chars()
                    .flat_map(|letter| {
                        ("*?[]\\^".contains(letter).then_some('\\')).into_iter().chain([letter])
                    })
                    .collect();
                let found = self.shared.call("ask", "find", |cmd| {
                    cmd.arg(prefix).arg(pattern).arg(FindJobs::MOST);
                });
                Answer::FindJobs(ids(found.await?))
            }
            Verb::Before(it) => {
                let job = self.get(&it.job).await?;
                if job.state != JobState::Waiting {
                    return Err(Error::WrongState { id: job.id, state: job.state, verb: "asked that" });
                }
                let count = self.place(&job).await?.map_or(0, |(_, before)| before.min(1000));
                Answer::Before(Number { count })
            }
            Verb::Cancel(it) => Answer::Cancel(self.cancel(it, &by).await?),
            Verb::Retry(it) => Answer::Retry(self.change(Act::Retry, &it.job, &by).await.map(done)?),
            Verb::Discard(it) => Answer::Discard(self.change(Act::Discard, &it.job, &by).await.map(done)?),
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
