//! State that the calls share with the supervisor's two tasks: one notices new jobs, one handles what is due.

use std::collections::BTreeSet;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use redis::{Cmd, Direction, Value};
use tokio::sync::Notify;
use tokio::time::{Instant as Moment, sleep};

use super::settings::Settings;
use crate::broker::ledger::Ledger;
use crate::broker::lock::lock;
use crate::broker::lost_replies::Unheard;
use crate::broker::owed::Owed;
use crate::broker::redis::values::{array, read, text, write_list};
use crate::broker::redis::{Arrivals, Link, Needs, script};
use crate::broker::{Complaints, Error, Notice};
use crate::model::{Fence, Instance, JobId};

/// The queue uses all keys of its database.
pub(super) static NEEDS: Needs =
    Needs { script: script!("base", "take", "ends", "tidy"), keys: "*", news: None };

/// Longest time from one look at due jobs to the next.
const TICK: Duration = Duration::from_secs(1);

/// Jobs that an earlier supervisor held.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// Jobs that this supervisor settles itself.
    pub keep: Vec<(JobId, Fence)>,
    /// Jobs that were being canceled: they do not wait again.
    pub canceled: Vec<(JobId, Fence)>,
}

pub(super) struct Shared {
    pub link: Link,
    pub settings: Settings,
    pub ledger: Ledger,
    place: String,
    pub unheard: Unheard,
    /// Attempts whose settlement was sent and whose reply was lost: Redis may have applied it.
    in_doubt: Mutex<BTreeSet<Fence>>,
    pub arrivals: Arrivals,
    /// Wakes when a job becomes due at a time that the task does not know.
    pub delayed: Notify,
    pub dropped: AtomicU64,
    pub owed: Owed<Left>,
    complaints: Complaints,
}

impl Shared {
    pub(super) fn new(link: Link, settings: Settings, ledger: Ledger, place: &str) -> Arc<Shared> {
        Arc::new(Shared {
            link,
            settings,
            ledger,
            place: place.into(),
            unheard: Unheard::new(),
            in_doubt: Mutex::default(),
            arrivals: Arrivals::new("pending".into(), Direction::Right),
            delayed: Notify::new(),
            dropped: AtomicU64::default(),
            owed: Owed::default(),
            complaints: Complaints::default(),
        })
    }

    /// Names this supervisor with its state directory: a copy of that directory is another holder.
    pub(super) fn holder(&self, instance: &Instance) -> String {
        format!("{instance}@{}", self.place)
    }

    pub(super) fn in_doubt(&self) -> BTreeSet<Fence> {
        lock(&self.in_doubt).clone()
    }

    /// Notes whether Redis may have applied the settlement of these attempts.
    pub(super) fn doubt(&self, runs: impl Iterator<Item = Fence>, is_in_doubt: bool) {
        let mut in_doubt = lock(&self.in_doubt);
        match is_in_doubt {
            true => in_doubt.extend(runs),
            false => runs.for_each(|run| _ = in_doubt.remove(&run)),
        }
    }

    /// Sends a command to the script.
    pub(super) async fn call(
        &self,
        verb: &str,
        command: &str,
        args: impl FnOnce(&mut Cmd),
    ) -> Result<Vec<Value>, Error> {
        let answer = self.link.call(verb, command, self.link.now(), |cmd, _| args(cmd)).await?;
        let values = array(answer)?;
        let words: Vec<String> = values.iter().map_while(text).collect();
        let [word, key, found, wanted] = &words[..] else { return Ok(values) };
        if word != "odd" {
            return Ok(values);
        }
        let why = Error::Failed(format!(
            "cannot {verb} Redis: the key '{key}' there is a {found} of another program and not the {wanted} of a reliable \
             queue: give the queue a database of its own, or remove the key (redis-cli DEL {key})"
        ));
        self.link.note(verb, Some(&why));
        Err(why)
    }

    /// Releases what an earlier process of this instance held, apart from `left.keep`; gives how many.
    pub(super) async fn release(&self, instance: &Instance, left: &Left) -> Result<u64, Error> {
        let canceled: Vec<_> = left.canceled.iter().filter(|one| !left.keep.contains(one)).collect();
        let ends = self.call("settle jobs in", "settle", |cmd| {
            cmd.arg(canceled.len());
            for (id, fence) in &canceled {
                cmd.arg(id.as_str()).arg(fence.0).arg("canceled").arg(0).arg("").arg(0);
            }
        });
        let ended: Vec<String> = read(Value::Array(ends.await?))?;
        let ended = ended.iter().filter(|said| *said == "canceled").count() as u64;
        let kept = left.keep.iter().map(|(_, fence)| fence.0);
        let answer = self.call("release jobs in", "recover", |cmd| {
            write_list(cmd.arg(self.holder(instance)), kept);
        });
        read::<(u64,)>(Value::Array(answer.await?)).map(|(count,)| count + ended)
    }

    /// Wakes the supervisor when jobs come.
    pub(super) async fn listen(self: Arc<Self>) {
        self.arrivals.listen(&self.link, &self.complaints, || self.ledger.say(Notice::Wake)).await;
    }

    /// Puts back what is due: jobs of dead holders, delayed jobs, and sometimes jobs that other clients have left.
    pub(super) async fn tidy(self: Arc<Self>) {
        const WHAT: &str = "failed to look at what is due";
        let (mut from, mut again) = (0, Moment::now());
        loop {
            let seconds = [self.settings.stale_time, self.settings.keep].map(|time| time.as_secs_f64());
            let done = self.call("tidy", "tidy", |cmd| {
                cmd.arg(&seconds).arg(from);
            });
            let mut wait = TICK.min(self.settings.tidy_interval);
            match done.await.and_then(|done| read::<(i64, String)>(Value::Array(done))) {
                Ok((next, due)) => {
                    self.complaints.well(WHAT, self.link.now());
                    let due = due.parse().ok().and_then(|due| Duration::try_from_secs_f64(due).ok());
                    wait = if next >= 0 { Duration::ZERO } else { wait.min(due.unwrap_or(wait)) };
                    from = next;
                }
                Err(error) => self.complaints.wrong(WHAT, &error, self.link.now()),
            }
            tokio::select! {
                () = sleep(wait) => {}
                () = self.delayed.notified() => {}
            }
            if from < 0 && again <= Moment::now() {
                (from, again) = (0, Moment::now() + self.settings.tidy_interval);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::broker::redis::assert_whole;

    #[test]
    fn every_source_is_part_of_the_script_and_short_enough() {
        assert_whole(super::NEEDS.script, "reliable");
    }
}
