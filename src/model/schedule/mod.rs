//! When a recurring job is due. Pure: the caller brings the moment and, for cron, the rules of the time zone.

mod cron;
mod fields;
mod line;
#[cfg(test)]
mod tests;
mod zoned;

use std::time::Duration;

use jiff::tz::TimeZone;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use cron::Cron;

use super::format::Seconds;
use super::format_duration;

/// When a recurring job is due.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Schedule {
    /// Again and again after the same time, whatever becomes of the wall clock.
    Every {
        /// That time: a second or more.
        #[serde(with = "Seconds")]
        interval: Duration,
        /// The first time, counted from the put.
        #[serde(default, with = "Seconds")]
        offset: Duration,
    },
    /// By the wall clock of a time zone.
    Cron {
        /// A line of crontab, e.g. `0 3 * * *`.
        line: Cron,
        /// A name of the time zone database, as `Europe/Vienna`.
        #[serde(default = "utc")]
        zone: String,
    },
}

fn utc() -> String {
    "UTC".into()
}

impl Schedule {
    /// The shortest interval.
    pub const SHORTEST: Duration = Duration::from_secs(1);
    /// The longest interval and offset.
    pub const LONGEST: Duration = Duration::from_secs(3660 * 24 * 3600);

    /// What is wrong with it, apart from a time zone that may be unknown here.
    pub fn fault(&self) -> Option<String> {
        match self {
            Schedule::Every { interval, .. } if *interval < Self::SHORTEST => Some(format!(
                "an interval of {} is too short: 1s is the shortest",
                format_duration(*interval)
            )),
            Schedule::Every { interval, offset } if *interval.max(offset) > Self::LONGEST => {
                Some("the interval or the offset is too long: 3660d is the longest".into())
            }
            Schedule::Every { .. } | Schedule::Cron { .. } => None,
        }
    }
}

/// A schedule with everything needed to compute its occurrences.
#[derive(Clone, Debug)]
pub enum Timetable {
    /// One occurrence, and the milliseconds to the next.
    Every {
        /// Any moment at which it is due.
        anchor: i64,
        /// Milliseconds to the next occurrence.
        interval: i64,
    },
    /// A cron line and its time zone.
    Cron(Cron, TimeZone),
}

impl Timetable {
    /// The first occurrence after `moment`, in the same milliseconds as the anchor, or for cron since 1970.
    ///
    /// ```
    /// use taskvisor_model::Timetable;
    /// let every = Timetable::Every { anchor: 5_000, interval: 2_000 };
    /// assert_eq!((every.after(5_000), every.after(6_999), every.after(0)), (Some(7_000), Some(7_000), Some(1_000)));
    /// ```
    pub fn after(&self, moment: i64) -> Option<i64> {
        match self {
            Timetable::Every { anchor, interval } => {
                // Euclid's remainder, as the moment may lie before the anchor.
                let since = moment.checked_sub(*anchor)?.rem_euclid(*interval);
                moment.checked_add(interval - since)
            }
            Timetable::Cron(line, zone) => zoned::after(line, zone, moment),
        }
    }

    /// The latest `most` occurrences from `first` to `last`, both included, in order. Looks back from `last` in growing
    /// steps, so that the cost depends on `most`, not on how many were missed.
    pub fn latest(&self, first: i64, last: i64, most: usize) -> Vec<i64> {
        const STEP: i64 = 60_000;
        let mut width = STEP;
        loop {
            // One before `first`, because `after` leaves out its own moment.
            let from = last.saturating_sub(width).max(first.saturating_sub(1));
            let mut found = Vec::new();
            let mut moment = from;
            while let Some(next) = self.after(moment).filter(|next| *next <= last) {
                found.push(next);
                moment = next;
            }
            if found.len() >= most || from < first {
                return found.split_off(found.len().saturating_sub(most));
            }
            width = width.saturating_mul(2);
        }
    }
}
