//! The faults of the fake SQS.

use std::time::Duration;

/// The faults of the fake; none at first. Percentages are of calls, entries or messages, drawn by a generator that is
/// the same in each run.
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    /// How long each call takes longer: half of it on the way to the service, half on the way back.
    pub latency: Duration,
    /// Percentage of calls refused as throttled.
    pub throttle: u8,
    /// Actions that are always refused as throttled.
    pub throttled: Vec<String>,
    /// Percentage of calls carried out whose connection is then closed without an answer.
    pub drop_replies: u8,
    /// Actions that are always carried out without an answer.
    pub dropped: Vec<String>,
    /// Percentage of batch entries that fail as SQS's fault.
    pub fail_entries: u8,
    /// Percentage of messages that stay visible when received, so that they are received twice. Standard queues only.
    pub duplicates: u8,
    /// Whether deletions succeed and their messages are visible again at once. SQS documents that this may happen.
    pub undeleted: bool,
    /// Whether standard queues give their newest messages first.
    pub reorder: bool,
    /// Whether counts of messages stay as they were when this was set.
    pub stale_counts: bool,
    /// Whether the handle of an earlier delivery changes the visibility of the next one, as with moto. Standard queues only.
    pub old_handles: bool,
    /// The code with which unknown receipt handles are refused, in place of that of SQS.
    pub handle_code: Option<&'static str>,
    /// Whether receipt handles are refused as expired.
    pub expired_handles: bool,
    /// Whether all calls are refused as not allowed.
    pub access_denied: bool,
    /// Actions that are refused as not allowed.
    pub denied: Vec<String>,
    /// Whether receives do not wait for messages, as with a proxy or an emulator that cannot.
    pub impatient: bool,
    /// Whether all connections are closed without an answer and without effect, those of open receives, too.
    pub gone: bool,
    /// Actions that are not answered while they are listed here.
    pub stalled: Vec<String>,
}
