//! How taskvisor calls Amazon SQS: what its adapter keeps to, and what the simulation counts.

use std::time::Duration;

/// Limit of the messages of one call.
pub const MOST: usize = 10;

/// How long a receive waits for a message, if it waits for one.
pub const WAIT: Duration = Duration::from_secs(20);

/// A message that no worker takes within this time is made visible for others.
pub const HOLD: Duration = Duration::from_secs(5);

/// How long a request about a message waits for others, to share a call with them.
pub const LINGER: Duration = Duration::from_millis(50);

/// How long a count from SQS is trusted.
pub const COUNTED: Duration = Duration::from_secs(10);

/// How long the empty answer of a receive that has waited is trusted, while the next one waits.
pub const EMPTY: Duration = Duration::from_secs(25);
