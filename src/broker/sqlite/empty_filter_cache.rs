//! Queues in which a filter finds nothing. A filtered fetch walks over all jobs it may not take, which among a million of
//! them takes a while: it need not do it again before a job comes that it may take.

use crate::model::{Class, ClassFilter};

/// More are not remembered: filters that change all the time are not worth it.
const MOST: usize = 256;

/// (queue, filter) pairs without a waiting job.
#[derive(Default)]
pub(super) struct Barren(Vec<(i64, ClassFilter)>);

impl Barren {
    /// Whether it is known that there is nothing.
    pub(super) fn has(&self, queue: i64, filter: &ClassFilter) -> bool {
        self.0.iter().any(|(at, barren)| *at == queue && barren == filter)
    }

    /// Nothing is left. Without a filter the index knows as fast.
    pub(super) fn note(&mut self, queue: i64, filter: &ClassFilter) {
        if *filter == ClassFilter::default() {
            return;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.push((queue, filter.clone()));
    }

    /// A job was put.
    pub(super) fn put(&mut self, queue: i64, class: &Class) {
        self.0.retain(|(at, filter)| *at != queue || !filter.matches(class));
    }

    /// A job of whatever class waits again.
    pub(super) fn forget(&mut self, queue: i64) {
        self.0.retain(|(at, _)| *at != queue);
    }
}
