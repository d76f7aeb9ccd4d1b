//! Remembers queues in which a filter finds nothing. A filtered fetch walks over all jobs that it may not take, which
//! is slow among a million of them. It need not walk again until a job comes that it may take.

use model::{Class, ClassFilter};

/// Limit of the remembered pairs: filters that change all the time are not worth it.
const MOST: usize = 256;

/// (queue, filter) pairs without a waiting job.
#[derive(Default)]
pub(super) struct Barren(Vec<(i64, ClassFilter)>);

impl Barren {
    /// Whether it is known that the filter finds nothing in this queue.
    pub(super) fn has(&self, queue: i64, filter: &ClassFilter) -> bool {
        self.0.iter().any(|(at, barren)| *at == queue && barren == filter)
    }

    /// Notes that the filter finds nothing more. Without a filter the index answers as fast.
    pub(super) fn note(&mut self, queue: i64, filter: &ClassFilter) {
        if *filter == ClassFilter::default() {
            return;
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        self.0.push((queue, filter.clone()));
    }

    /// A job of this class was put.
    pub(super) fn put(&mut self, queue: i64, class: &Class) {
        self.0.retain(|(at, filter)| *at != queue || !filter.matches(class));
    }

    /// A job of some class waits again.
    pub(super) fn forget(&mut self, queue: i64) {
        self.0.retain(|(at, _)| *at != queue);
    }
}
