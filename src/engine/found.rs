//! What the gauge finds, in the words of the supervisor.

use process::Found;
use supervisor::Event;

/// Turns a finding of the gauge into an event.
pub(super) fn found_event(found: Found) -> Event {
    match found {
        Found::Exceeded { worker, job, fence, excess } => Event::Exceeded { worker, job, fence, excess },
        Found::Stands { worker, stood, since } => Event::Stands { worker, stood, since },
        Found::Outgrown(worker) => Event::Outgrown(worker),
    }
}
