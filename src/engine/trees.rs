//! Looks up the processes below each slot's, for those who look at the whole.

use super::request::View;
use model::SlotStatus;
use process::usage;

/// Slots that are looked at before others may run.
const AT_A_TIME: usize = 32;

/// Writes into each slot its processes. The loop may run between two of them.
pub(super) async fn look_up(view: &mut View) {
    let keeper = view.keeper.pid;
    for pool in &mut view.pools {
        pool.template.iter_mut().for_each(|slot| look_up_tree(slot, keeper));
        for some in pool.slots.chunks_mut(AT_A_TIME) {
            some.iter_mut().for_each(|slot| look_up_tree(slot, keeper));
            tokio::task::yield_now().await;
        }
    }
}

fn look_up_tree(slot: &mut SlotStatus, keeper: i32) {
    slot.process = slot.process.take().and_then(|leader| usage::tree(leader.pid, keeper));
}
