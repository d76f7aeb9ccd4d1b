//! Settings for notifications.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use model::{Class, NewJob, QueueName, Retry, with_defaults};

with_defaults! {
    /// How notifications become jobs.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Settings {
        /// The queue for their jobs.
        pub queue: QueueName = "default".into(),
        /// The class of their jobs; None = each request names it.
        pub class: Option<Class> = None,
        /// Tries after the first one.
        pub max_retries: u32 = 0,
        /// Time from the first failure to the first retry; doubled for each later one.
        pub retry_delay: Duration = Duration::from_secs(20),
        /// How long to keep tasks that succeeded; None = as the broker's options say. Holds for all jobs of the broker.
        pub success_ttl: Option<Duration> = None,
        /// The same for those that failed.
        pub failure_ttl: Option<Duration> = None,
        /// What to do with a notification while the broker is away.
        pub when_away: WhenAway = WhenAway::Refuse,
        /// The directory for samples of how long tasks took and how many wait.
        pub telemetry_dir: Option<PathBuf> = None,
        /// The port of this machine where notifications come without a token; None = by the API alone.
        pub listen: Option<SocketAddr> = None,
    }
}

/// What to do with a notification while the broker is away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WhenAway {
    /// Refuse it with 500.
    Refuse,
    /// Keep its job in the state directory, and put it when the broker is back.
    Keep,
}

impl WhenAway {
    /// The value in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            WhenAway::Refuse => "refuse",
            WhenAway::Keep => "keep",
        }
    }
}

impl Settings {
    /// The retry policy of their jobs: retry k comes `retry_delay * 2^k` after the failure before it, for k from 0,
    /// without a limit.
    pub fn retry(&self) -> Retry {
        Retry { retries: self.max_retries, delay: self.retry_delay, cap: NewJob::DELAY_MAX }
    }
}
