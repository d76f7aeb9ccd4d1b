//! Folds the idle slots in the tree of `status`: they share a line with their sum.

use super::slot::slot;
use crate::cli::term::branch::Node;
use crate::cli::term::processes::{add, times, used};
use crate::cli::term::screen::Look;
use model::{FEWEST, Process, SlotState, SlotStatus};

/// The lines of slots. Those that are ready, and have nothing else to tell, share the last one.
pub(super) fn slots(all: &[SlotStatus], look: &Look) -> Vec<Node> {
    let (plain, others): (Vec<&SlotStatus>, Vec<&SlotStatus>) = all.iter().partition(|slot| is_plain(slot));
    if look.all || plain.len() < FEWEST {
        return all.iter().map(|each| slot(each, look)).collect();
    }
    let mut nodes: Vec<Node> = others.into_iter().map(|each| slot(each, look)).collect();
    let sum = plain.iter().filter_map(|slot| slot.process.as_ref()).fold(Process::default(), add);
    nodes.push(Node::leaf(format!("slots {} ready  {}", times(plain.len(), look), used(&sum))));
    nodes
}

/// Whether a slot is ready and there is nothing else to tell of it.
fn is_plain(slot: &SlotStatus) -> bool {
    let has_words = [&slot.why, &slot.trace, &slot.warning].into_iter().any(Option::is_some);
    // S: it sleeps, as a worker does that waits for a job.
    let is_quiet = |process: &Process| process.children.is_empty() && process.state == "S";
    slot.state == SlotState::Ready
        && slot.jobs.is_empty()
        && slot.waits.is_empty()
        && slot.until.is_none()
        && slot.leaving.is_none()
        && !slot.failing
        && slot.restarts == 0
        && !has_words
        && slot.process.as_ref().is_none_or(is_quiet)
}
