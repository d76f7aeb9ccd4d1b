//! Statistics of a queue's jobs for today.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Counts of a queue since midnight (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Today {
    /// How long jobs waited that were given out.
    pub wait: Sum,
    /// How long attempts ran that completed their jobs.
    pub run: Sum,
    /// Attempts that failed and were tried again.
    pub retries: u64,
    /// Jobs that failed.
    pub failures: u64,
    /// Those of them that still are.
    pub failed: u64,
}

impl Today {
    /// Whether nothing has happened.
    pub fn is_quiet(&self) -> bool {
        *self == Today::default()
    }
}

/// Sum of durations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sum {
    /// Number of durations.
    pub count: u64,
    /// Sum in seconds.
    pub seconds: f64,
}

impl std::ops::AddAssign for Today {
    fn add_assign(&mut self, other: Today) {
        for (sum, more) in [(&mut self.wait, other.wait), (&mut self.run, other.run)] {
            sum.count += more.count;
            sum.seconds += more.seconds;
        }
        self.retries += other.retries;
        self.failures += other.failures;
        self.failed += other.failed;
    }
}
