//! The events of a pause, for a reader that wants few messages: with many jobs in it, how many of each kind and queue.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::{PublishedEvent, QueueName};

/// Number of jobs that are named; of more their events are counted.
const NAMED: usize = 40;

/// Events that wait for the end of the pause.
#[derive(Default)]
pub(super) struct Gathered {
    named: Vec<Arc<PublishedEvent>>,
    /// Those of jobs beyond the limit, by kind and queue.
    many: BTreeMap<(&'static str, Option<QueueName>), PublishedEvent>,
    /// Those that are about no job.
    others: Vec<Arc<PublishedEvent>>,
}

impl Gathered {
    /// One more event.
    pub(super) fn add(&mut self, news: Arc<PublishedEvent>) {
        if news.job.is_none() {
            self.others.push(news);
        } else if self.many.is_empty() && self.named.len() < NAMED {
            self.named.push(news);
        } else {
            for news in std::mem::take(&mut self.named) {
                self.count(&news);
            }
            self.count(&news);
        }
    }

    fn count(&mut self, news: &PublishedEvent) {
        // The word: `What` has no order of its own.
        let many =
            self.many.entry((news.what.as_str(), news.queue.clone())).or_insert_with(|| PublishedEvent {
                queue: news.queue.clone(),
                count: Some(0),
                ..PublishedEvent::new(news.what, news.at)
            });
        (many.n, many.at, many.count) = (news.n, news.at, many.count.map(|count| count + 1));
    }

    /// What is to be sent, in the order of things; nothing is left.
    pub(super) fn take(&mut self) -> Vec<Arc<PublishedEvent>> {
        let Gathered { named, many, others } = std::mem::take(self);
        let mut all: Vec<_> =
            named.into_iter().chain(many.into_values().map(Arc::new)).chain(others).collect();
        // A notice of lost events has no number: it comes first.
        all.sort_by_key(|news| news.n);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Millis, What};

    fn put(n: u64, queue: &str) -> Arc<PublishedEvent> {
        let at = Millis(i64::try_from(n).unwrap());
        let (job, queue) = (Some("a".into()), Some(queue.into()));
        Arc::new(PublishedEvent { n, job, queue, ..PublishedEvent::new(What::Put, at) })
    }

    #[test]
    fn few_jobs_are_named_and_many_are_counted_by_kind_and_queue() {
        let mut gathered = Gathered::default();
        let few: Vec<_> = (1..=40).map(|n| put(n, "mail")).collect();
        few.iter().for_each(|news| gathered.add(news.clone()));
        assert_eq!(gathered.take(), few);
        for n in 1..=100 {
            gathered.add(put(n, if n % 4 == 0 { "b" } else { "a" }));
        }
        gathered.add(Arc::new(PublishedEvent { n: 50, ..PublishedEvent::new(What::Ready, Millis(50)) }));
        let said = |news: &PublishedEvent| {
            (news.n, news.at.0, news.what, news.queue.as_ref().map(ToString::to_string), news.count)
        };
        let all: Vec<_> = gathered.take().iter().map(|news| said(news)).collect();
        let expected = [
            (50, 50, What::Ready, None, None),
            (99, 99, What::Put, Some("a".into()), Some(75)),
            (100, 100, What::Put, Some("b".into()), Some(25)),
        ];
        assert_eq!(all, expected);
        assert!(gathered.take().is_empty());
    }
}
