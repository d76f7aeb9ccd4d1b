//! A message of a running job that is hidden no more, after a silence of SQS or of this host, is received again.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::fault::Fault;
use super::poll;
use super::shared::Shared;
use super::source_queue::SourceQueue;
use model::{Fence, JobId};
use select::terms::MOST;

/// Limit of the receives: in a long queue the message may lie anywhere.
const TRIES: usize = 5;
/// How long a receive waits: without a wait SQS may overlook messages.
const WAIT: Duration = Duration::from_secs(1);

/// Receives the message of a running job again, and others beside it. Gives whether it is ours again, and hidden for the
/// length of a lease. `handle` is that of the delivery whose time is over. A stop begins no receive.
pub(super) async fn regain(
    shared: &Arc<Shared>,
    source: &Arc<SourceQueue>,
    (job, fence): (&JobId, Fence),
    handle: &str,
    lease: Duration,
) -> Result<bool, Fault> {
    // One after the other, as each may find the messages of the others.
    let _turn = source.regaining.lock().await;
    let is_back = || shared.held.with(job, fence, |held| held.handle != handle).unwrap_or(false);
    for _ in 0..TRIES {
        if is_back() || shared.stopping.load(Ordering::Relaxed) {
            break;
        }
        let messages = shared.client.receive(&source.queue.name, MOST, lease, WAIT).await?;
        if messages.is_empty() {
            break;
        }
        poll::keep(shared, source, messages, lease);
    }
    Ok(is_back())
}
