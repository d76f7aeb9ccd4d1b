//! The bad days of SQS.

use std::time::Duration;

/// How the fake misbehaves. At first not at all. Percentages are of calls, entries or messages, by a generator that gives the
/// same in each run.
#[derive(Clone, Debug, Default)]
pub struct Knobs {
    /// Each answer comes so much later.
    pub latency: Duration,
    /// Calls that are refused as throttled.
    pub throttle: u8,
    /// Actions that are refused as throttled, always.
    pub throttled: Vec<String>,
    /// Calls that are carried out and whose connection is then closed without an answer.
    pub drop_replies: u8,
    /// Actions that are carried out without an answer, always.
    pub dropped: Vec<String>,
    /// Entries of a batch that fail, by SQS's fault.
    pub fail_entries: u8,
    /// Messages that stay visible when they are received, so that they are received twice. Standard queues only.
    pub duplicates: u8,
    /// Whether deletions succeed and their messages are visible again at once. SQS documents that this may happen.
    pub undeleted: bool,
    /// Whether standard queues give their newest messages first.
    pub reorder: bool,
    /// Whether counts of messages stay as they were when this was set.
    pub stale_counts: bool,
    /// Whether receipt handles are refused as expired.
    pub expired_handles: bool,
    /// Whether all calls are refused as not allowed.
    pub access_denied: bool,
    /// Whether all connections are closed without an answer and without effect.
    pub gone: bool,
    /// Actions that are never answered, as long as they are here.
    pub stalled: Vec<String>,
}
