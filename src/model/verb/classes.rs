//! The verb for statistics of classes.

use std::time::Duration;

use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

use crate::{Class, Day, JobState, Settlement, Verdict};

/// Tells how the jobs of each class fared, by day: those that workers of taskvisor ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClassStats {
    /// Only this class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// The last of the days; today if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub day: Option<Day>,
    /// Number of days, 90 at most; 1 if left out.
    #[serde(default, deserialize_with = "days", skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
}

fn days<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u32>, D::Error> {
    let days = Option::deserialize(from)?;
    match days.is_none_or(|days: u32| (1..=ClassStats::DAYS_KEPT).contains(&days.into())) {
        true => Ok(days),
        false => Err(D::Error::custom(format!("days is a number from 1 to {}", ClassStats::DAYS_KEPT))),
    }
}

impl ClassStats {
    /// Number of days that are kept before today.
    pub const DAYS_KEPT: i64 = 90;

    /// The first and the last day of the answer.
    pub fn span(&self, today: Day) -> (Day, Day) {
        let last = self.day.unwrap_or(today);
        let days = i64::from(self.days.unwrap_or(1)).clamp(1, ClassStats::DAYS_KEPT);
        // Days before that are not kept.
        (Day((last.0 - days + 1).max(today.0 - ClassStats::DAYS_KEPT)), last)
    }

    /// The answer for these sums: the last day first, then by class, with the classes that share a count at the end of
    /// a day.
    pub fn told(&self, mut sums: Vec<(Day, String, ClassSums)>) -> Vec<ClassDay> {
        sums.retain(|(_, class, _)| self.class.as_ref().is_none_or(|asked| asked.as_str() == class));
        // `false` comes before `true`: the empty name is the last of its day.
        sums.sort_by(|a, b| (b.0, a.1.is_empty(), &a.1).cmp(&(a.0, b.1.is_empty(), &b.1)));
        sums.into_iter().map(|(day, class, sums)| sums.told(day, class)).collect()
    }
}

/// How the jobs of a class fared on a day. Times are in seconds, and those of all attempts that ended so, together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClassDay {
    /// The day, in UTC.
    pub day: Day,
    /// The class; none for all classes after the first 100 of the day.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub class: Option<Class>,
    /// Attempts that completed their jobs.
    pub complete: u64,
    /// Attempts that failed and were tried again.
    pub retries: u64,
    /// Jobs that failed.
    pub failed: u64,
    /// Jobs that were held.
    pub held: u64,
    /// Total run time.
    pub ran: f64,
    /// Longest run time.
    pub longest: f64,
    /// Attempts of which the CPU time is known: not those that ran beside others in one worker.
    pub measured: u64,
    /// CPU time of those.
    pub cpu: f64,
    /// The most memory that one process had, in bytes; 0 if none ran one job alone.
    pub peak_rss: u64,
}

/// The same as brokers store it: times in milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSums {
    /// Attempts that completed their jobs.
    pub complete: i64,
    /// Attempts that failed and were tried again.
    pub retries: i64,
    /// Jobs that failed.
    pub failed: i64,
    /// Jobs that were held.
    pub held: i64,
    /// Total time that they ran.
    pub ran: i64,
    /// Longest run time.
    pub longest: i64,
    /// Number of jobs with `cpu`.
    pub measured: i64,
    /// Their CPU time, in milliseconds.
    pub cpu: i64,
    /// The largest memory of a process that ran only one job, in bytes.
    pub peak_rss: i64,
}

impl ClassSums {
    /// Limit of the classes that are counted by themselves on a day, as users choose the names.
    pub const CLASSES_MAX: usize = 100;

    /// The sums of one attempt that ran for this time; None if the attempt was released or canceled.
    pub fn of(settlement: &Settlement, became: JobState, ran: i64) -> Option<ClassSums> {
        let mut sums = ClassSums { ran, longest: ran, ..ClassSums::default() };
        match became {
            JobState::Complete => sums.complete = 1,
            JobState::Failed => sums.failed = 1,
            JobState::Held => sums.held = 1,
            JobState::Waiting | JobState::Delayed if matches!(settlement.verdict, Verdict::Retry { .. }) => {
                sums.retries = 1;
            }
            // Released unspent: the attempt does not count, here neither.
            JobState::Waiting | JobState::Delayed | JobState::Depends => return None,
            JobState::Running | JobState::Canceling | JobState::Canceled => return None,
        }
        if let Some((cpu, peak_rss)) = ClassSums::used(settlement) {
            (sums.measured, sums.cpu, sums.peak_rss) = (1, cpu, peak_rss);
        }
        Some(sums)
    }

    /// CPU time of an attempt, in milliseconds, and peak memory, in bytes, if they are known to be its own; 0 = memory
    /// is not known.
    pub fn used(settlement: &Settlement) -> Option<(i64, i64)> {
        let left = settlement.forensics.as_ref()?;
        let cpu = i64::try_from(left.cpu()?.as_millis()).unwrap_or(i64::MAX);
        let peak_rss = left.exit_alone().map_or(0, |exit| exit.usage.max_rss);
        Some((cpu, i64::try_from(peak_rss).unwrap_or(i64::MAX)))
    }

    /// Adds other sums.
    pub fn merge(&mut self, other: &ClassSums) {
        self.complete += other.complete;
        self.retries += other.retries;
        self.failed += other.failed;
        self.held += other.held;
        self.ran = self.ran.saturating_add(other.ran);
        self.longest = self.longest.max(other.longest);
        self.measured += other.measured;
        self.cpu = self.cpu.saturating_add(other.cpu);
        self.peak_rss = self.peak_rss.max(other.peak_rss);
    }

    fn told(self, day: Day, class: String) -> ClassDay {
        let count = |count: i64| u64::try_from(count).unwrap_or(0);
        let seconds = |millis: i64| Duration::from_millis(count(millis)).as_secs_f64();
        ClassDay {
            day,
            class: Some(class).filter(|class| !class.is_empty()).map(Class::from),
            complete: count(self.complete),
            retries: count(self.retries),
            failed: count(self.failed),
            held: count(self.held),
            ran: seconds(self.ran),
            longest: seconds(self.longest),
            measured: count(self.measured),
            cpu: seconds(self.cpu),
            peak_rss: count(self.peak_rss),
        }
    }
}
