//! State that the calls share with the supervisor's two tasks: one notices new jobs, one handles what is due.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use serde::de::IgnoredAny;
use tokio::sync::Notify;
use tokio::time::{Instant as Moment, sleep};

use super::settings::Settings;
use broker::{Complaints, Error, Notice, Settling};
use common::{Damper, InDoubt, Owed, Unheard, lock};
use ledger::{Elsewhere, Ledger};
use model::{Failure, Fence, Instance, JobId, JobState, QueueSet, Settlement, Verdict};
use redis_link::values::{Text, read, write_list};
use redis_link::{Arrivals, Link, Needs, script};

/// The queue uses all keys of its database.
pub(super) static NEEDS: Needs =
    Needs { script: script!("base", "take", "ends", "tidy"), keys: "*", expire: false, news: None };

/// Longest time from one look at due jobs to the next.
const TICK: Duration = Duration::from_secs(1);

/// The word of the script for a job of which nothing is known.
pub(super) const GONE: &str = "gone";

/// Attempts of an earlier supervisor that do not just wait again.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// Attempts that this supervisor settles itself.
    pub keep: Vec<Fence>,
    /// Attempts of jobs that were being canceled.
    pub canceled: Vec<Fence>,
}

/// An end of a job: id, fence, the verdict's word, delay and text.
pub(super) type End<'a> = (&'a [u8], Fence, &'a str, Duration, String);

/// A value that is no job: its id, the fence under which it was taken, and its dead letter.
pub(super) type Poison = (Vec<u8>, Fence, String);

pub(super) struct Shared {
    pub link: Link,
    pub settings: Settings,
    pub ledger: Ledger,
    /// Identifies the state directory of this process.
    pub place: String,
    pub unheard: Unheard,
    pub in_doubt: InDoubt,
    pub arrivals: Arrivals,
    /// Wakes when a job becomes due at a time that the task does not know.
    pub delayed: Notify,
    pub dropped: AtomicU64,
    /// Lines about poison.
    pub poison: Damper,
    /// Poison that is still to be ended.
    pub unended: Mutex<Vec<Poison>>,
    pub owed: Owed<Left>,
    pub complaints: Complaints,
}

impl Shared {
    /// Names this supervisor with its state directory: a copy of that directory is another holder.
    pub(super) fn holder(&self, instance: &Instance) -> String {
        format!("{instance}@{}", self.place)
    }

    /// Sends a command to the script.
    pub(super) async fn call<T: FromRedisValue>(
        &self,
        verb: &str,
        command: &str,
        args: impl FnOnce(&mut Cmd) + Send,
    ) -> Result<T, Error> {
        read(self.link.call(verb, command, self.link.now(), |cmd, _| args(cmd)).await?)
    }

    /// Tells the script whether leases are over now.
    fn settling(&self) -> &'static str {
        if self.link.is_settling() { "settling" } else { "" }
    }

    /// Releases what an earlier process of this instance held; gives how many jobs.
    pub(super) async fn release(&self, instance: &Instance, left: &Left) -> Result<u64, Error> {
        let released = self.call("release jobs in", "recover", |cmd| {
            cmd.arg(self.holder(instance));
            for runs in [&left.keep, &left.canceled] {
                write_list(cmd, runs.iter().map(|fence| fence.0));
            }
        });
        released.await
    }

    /// Ends jobs in Redis.
    pub(super) async fn end(&self, ends: &[End<'_>]) -> Result<Vec<Text>, Error> {
        let answer = self.call("settle jobs in", "settle", |cmd| {
            cmd.arg(ends.len());
            for (id, fence, verdict, after, text) in ends {
                let is_again = u8::from(self.in_doubt.contains(*fence));
                cmd.arg(id).arg(fence.0).arg(verdict).arg(after.as_secs_f64()).arg(text).arg(is_again);
            }
        });
        let answer = answer.await;
        self.in_doubt.note(ends.iter().map(|(_, fence, ..)| *fence), &answer);
        if ends.iter().any(|(_, _, _, after, _)| !after.is_zero()) {
            self.delayed.notify_one();
        }
        answer
    }

    /// Ends poison, and keeps what cannot be ended now for the next round. An answer for one of them, whatever it is, is
    /// the last: its lease is over, or Redis has a fault that a later fetch meets again.
    async fn end_poison(&self) {
        let all = lock(&self.unended).clone();
        if all.is_empty() {
            return;
        }
        let ends =
            all.iter().map(|(id, fence, letter)| (&id[..], *fence, "fail", Duration::ZERO, letter.clone()));
        let ended = self.end(&ends.collect::<Vec<_>>()).await;
        self.complaints.note("values that are no jobs cannot be ended", &ended, self.link.now());
        if ended.is_ok() {
            lock(&self.unended).retain(|one| !all.contains(one));
            // The workers for them are free.
            self.ledger.say(Notice::Wake(QueueSet::All));
        }
    }

    /// Asks Redis how jobs ended; None = not ended.
    pub(super) async fn ended(&self, jobs: &[JobId]) -> Result<Vec<Option<Elsewhere>>, Error> {
        let asked = self.call("ask about jobs in", "ended", |cmd| {
            write_list(cmd, jobs.iter().map(JobId::as_str));
        });
        let found: Vec<Vec<Text>> = asked.await?;
        Ok(found.iter().map(|words| ended(words)).collect())
    }

    /// Records how jobs ended here that Redis does not know any more, and warns of each.
    pub(super) async fn forget(&self, ends: Vec<Settlement>) {
        if ends.is_empty() {
            return;
        }
        let known: Vec<(Settlement, Settling)> = ends.into_iter().map(unknown_end).collect();
        known.iter().for_each(|(end, _)| tracing::warn!(job = %end.job, "{UNKNOWN_END}"));
        let notes = known.iter().map(|(end, _)| (end.job.clone(), UNKNOWN_END.to_owned())).collect();
        let (ends, answers): (Vec<_>, Vec<_>) = known.into_iter().unzip();
        self.ledger.settle(ends, &answers).await;
        self.ledger.noted(notes).await;
    }

    /// Asks about the next jobs after `place` that the ledger has as waiting, records their ends, and moves `place` on.
    async fn learn(&self, place: &mut i64) {
        let waiting = self.ledger.waiting_behind(*place).await;
        let (places, jobs): (Vec<i64>, Vec<JobId>) = waiting.into_iter().unzip();
        *place = places.last().copied().unwrap_or(i64::MIN);
        // What cannot be asked now is asked in the next round.
        let found = if jobs.is_empty() { Vec::new() } else { self.ended(&jobs).await.unwrap_or_default() };
        let ended = jobs.into_iter().zip(found).filter_map(|(job, how)| Some((job, how?)));
        self.ledger.learn(ended.collect()).await;
    }

    /// Wakes the supervisor when jobs come.
    pub(super) async fn listen(self: Arc<Self>) {
        self.arrivals
            .listen(&self.link, &self.complaints, || self.ledger.say(Notice::Wake(QueueSet::All)))
            .await;
    }

    /// Puts back what is due: jobs of dead holders, delayed jobs, and sometimes jobs that other clients have left.
    pub(super) async fn tidy(self: Arc<Self>) {
        let seconds = [self.settings.stale_time, self.settings.keep].map(|time| time.as_secs_f64());
        let (mut from, mut again, mut place) = (0, Moment::now(), i64::MIN);
        loop {
            self.end_poison().await;
            let done: Result<(i64, Option<f64>, Text), Error> =
                self.call("tidy", "tidy", |cmd| _ = cmd.arg(&seconds).arg(from).arg(self.settling())).await;
            self.complaints.note("failed to look at what is due", &done, self.link.now());
            let mut wait = TICK.min(self.settings.tidy_interval);
            if let Ok((next, due, Text(mark))) = done {
                from = next;
                if self.link.has_forgotten(&mark, &self.complaints) {
                    // What the ledger has as waiting is asked about now.
                    (from, again) = (-1, Moment::now());
                }
                wait = due
                    .and_then(|due| Duration::try_from_secs_f64(due).ok())
                    .map_or(wait, |due| wait.min(due));
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.delayed.notified() => {}
            }
            // Below 0, a pass over the jobs of all other clients is over.
            if from < 0 && again <= Moment::now() {
                (from, again) = (0, Moment::now() + self.settings.tidy_interval);
                self.learn(&mut place).await;
            }
        }
    }
}

/// How a job ended, from the words of the script: its state, and its result or its dead letter.
fn ended(words: &[Text]) -> Option<Elsewhere> {
    match words {
        [Text(state), Text(result)] if state == "complete" => {
            let is_json = serde_json::from_str::<IgnoredAny>(result).is_ok();
            Some(Elsewhere::Complete { result: is_json.then(|| result.clone()) })
        }
        [Text(state), Text(letter)] if state == "failed" => Some(Elsewhere::Failed(failure(letter))),
        [Text(state)] if state == GONE => Some(Elsewhere::Failed(forgotten())),
        _ => None,
    }
}

/// Why Redis does not know a job.
macro_rules! unknown {
    () => {
        "Redis does not know it any more: it was removed there, or Redis was emptied or replaced"
    };
}

/// What the ledger notes of a job that ended here, and whose end Redis could not take.
pub(super) const UNKNOWN_END: &str = concat!("its end was not taken: ", unknown!());

/// The failure of a job of which Redis knows nothing: nobody runs it, and nobody can say whether it ended elsewhere.
pub(super) fn forgotten() -> Failure {
    let message = concat!(unknown!(), "; put it again if it is still wanted");
    Failure { group: "forgotten".into(), message: message.into(), trace: None }
}

/// How a job ended that Redis does not know any more: nobody will try it again.
fn unknown_end(end: Settlement) -> (Settlement, Settling) {
    let (verdict, state) = match end.verdict {
        done @ Verdict::Complete { next: None, .. } => (done, JobState::Complete),
        Verdict::Canceled => (Verdict::Canceled, JobState::Canceled),
        Verdict::Retry { failure, .. } | Verdict::Fail { failure } | Verdict::Hold { failure } => {
            (Verdict::Fail { failure }, JobState::Failed)
        }
        Verdict::Complete { .. } | Verdict::Release { .. } => {
            (Verdict::Fail { failure: forgotten() }, JobState::Failed)
        }
    };
    (Settlement { verdict, ..end }, Settling::Settled(state))
}

/// The failure in a dead letter: its error is the group, alone or with the message behind a colon.
fn failure(letter: &str) -> Failure {
    let letter: serde_json::Value = serde_json::from_str(letter).unwrap_or_default();
    let text = |name: &str| letter[name].as_str().map(str::to_owned);
    let error = text("error").unwrap_or_else(|| "failed".into());
    let (group, rest) = error.split_once(": ").unwrap_or((&error, ""));
    let message = text("message").unwrap_or_else(|| rest.into());
    Failure { group: group.into(), message, trace: text("trace") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use redis_link::assert_whole;

    #[test]
    fn dead_letter_says_how_a_job_failed() {
        let of = |letter: &str| match ended(&[Text("failed".into()), Text(letter.into())]) {
            Some(Elsewhere::Failed(failure)) => (failure.group, failure.message, failure.trace),
            other => panic!("{other:?}"),
        };
        let lost = r#"{"error":"interrupted: whoever ran it died, 5 times"}"#;
        assert_eq!(of(lost), ("interrupted".into(), "whoever ran it died, 5 times".into(), None));
        let raised = r#"{"error":"ValueError","message":"no: luck","trace":"t"}"#;
        assert_eq!(of(raised), ("ValueError".into(), "no: luck".into(), Some("t".into())));
        assert_eq!(of("not ours").0, "failed");
        assert_eq!(ended(&[]), None);
    }

    #[test]
    fn every_source_is_part_of_the_script_and_short_enough() {
        assert_whole(super::NEEDS.script, env!("CARGO_MANIFEST_DIR"));
    }
}
