//! State that the calls share with the supervisor's two tasks: one notices new jobs, one handles what is due.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use redis::{Cmd, FromRedisValue};
use tokio::sync::Notify;
use tokio::time::{Instant as Moment, sleep};

use super::settings::Settings;
use crate::broker::damper::Damper;
use crate::broker::ledger::Ledger;
use crate::broker::lost_replies::{InDoubt, Unheard};
use crate::broker::owed::Owed;
use crate::broker::redis::values::{read, write_list};
use crate::broker::redis::{Arrivals, Link, Needs, script};
use crate::broker::{Complaints, Error, Notice};
use crate::model::{Fence, Instance, QueueSet};

/// The queue uses all keys of its database.
pub(super) static NEEDS: Needs =
    Needs { script: script!("base", "take", "ends", "tidy"), keys: "*", expire: false, news: None };

/// Longest time from one look at due jobs to the next.
const TICK: Duration = Duration::from_secs(1);

/// Attempts of an earlier supervisor that do not just wait again.
#[derive(Clone, Debug)]
pub(super) struct Left {
    /// Attempts that this supervisor settles itself.
    pub keep: Vec<Fence>,
    /// Attempts of jobs that were being canceled.
    pub canceled: Vec<Fence>,
}

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
        args: impl FnOnce(&mut Cmd),
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

    /// Wakes the supervisor when jobs come.
    pub(super) async fn listen(self: Arc<Self>) {
        self.arrivals
            .listen(&self.link, &self.complaints, || self.ledger.say(Notice::Wake(QueueSet::All)))
            .await;
    }

    /// Puts back what is due: jobs of dead holders, delayed jobs, and sometimes jobs that other clients have left.
    pub(super) async fn tidy(self: Arc<Self>) {
        let seconds = [self.settings.stale_time, self.settings.keep].map(|time| time.as_secs_f64());
        let (mut from, mut again) = (0, Moment::now());
        loop {
            let done: Result<(i64, Option<f64>), Error> =
                self.call("tidy", "tidy", |cmd| _ = cmd.arg(&seconds).arg(from).arg(self.settling())).await;
            self.complaints.note("failed to look at what is due", &done, self.link.now());
            let mut wait = TICK.min(self.settings.tidy_interval);
            if let Ok((next, due)) = done {
                from = next;
                wait = due
                    .and_then(|due| Duration::try_from_secs_f64(due).ok())
                    .map_or(wait, |due| wait.min(due));
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
