//! Time as data. The pure rooms are given instants; only `clock/` reads one.

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct Millis(pub i64);

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whole milliseconds, rounded up: nothing is due early.
pub fn millis_up(wait: Duration) -> i64 {
    i64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(i64::MAX)
}
