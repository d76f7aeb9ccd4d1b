//! Time as data. The pure rooms get instants; only `clock/` reads a clock.

use std::fmt;
use std::ops::{Add, Sub};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A moment on the host's boot-time clock, in nanoseconds since boot. It goes on during suspend and does not jump when
/// the wall clock is set, which neither `std::time::Instant` nor `SystemTime` can say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Instant(pub u64);

impl Instant {
    /// A moment given in milliseconds since boot.
    pub const fn from_millis(millis: u64) -> Self {
        Instant(millis * 1_000_000)
    }

    /// Milliseconds since boot.
    pub const fn as_millis(self) -> u64 {
        self.0 / 1_000_000
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Instant) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Instant {
    type Output = Instant;

    fn add(self, wait: Duration) -> Instant {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_add(nanos))
    }
}

impl Sub<Duration> for Instant {
    type Output = Instant;

    fn sub(self, wait: Duration) -> Instant {
        let nanos = u64::try_from(wait.as_nanos()).unwrap_or(u64::MAX);
        Instant(self.0.saturating_sub(nanos))
    }
}

/// Milliseconds since 1970 on the broker's clock: what people are shown, and what delays count on.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl Millis {
    /// RFC 3339 in UTC with milliseconds; `?` if the date is outside of the calendar.
    pub fn rfc3339(self) -> String {
        let written = |at: jiff::Timestamp| at.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        jiff::Timestamp::from_millisecond(self.0).map_or_else(|_| "?".into(), written)
    }
}

/// RFC 3339, or milliseconds since 1970.
///
/// ```
/// use taskvisor_model::Millis;
/// assert_eq!("1970-01-01T00:00:01.500Z".parse(), Ok(Millis(1500)));
/// assert_eq!(Millis(1500).rfc3339().parse(), Ok(Millis(1500)));
/// assert_eq!("1500".parse(), Ok(Millis(1500)));
/// assert!("yesterday".parse::<Millis>().unwrap_err().contains("is no time"));
/// assert!("9999-12-31T23:59:59Z".parse::<Millis>().unwrap_err().contains("is out of range"));
/// ```
impl std::str::FromStr for Millis {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let moment = || text.parse::<jiff::Timestamp>().map(|at| at.as_millisecond());
        // The number first: no date of RFC 3339 is one.
        text.parse().or_else(|_| moment()).map(Millis).map_err(|_| {
            // What is a date, and no moment of the calendar, is out of its range.
            let is_date = jiff::fmt::temporal::Pieces::parse(text).is_ok_and(|it| it.offset().is_some());
            let what = if is_date { "out of range: times end at" } else { "no time: it is RFC 3339, as" };
            let when = if is_date {
                "9999-12-30T22:00:00Z"
            } else {
                "2026-11-22T19:51:36Z, or milliseconds since 1970"
            };
            format!("'{text:.40}' is {what} {when}")
        })
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whole milliseconds, rounded up, so that nothing is due early.
pub fn millis_up(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
