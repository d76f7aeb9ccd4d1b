//! Messages that polls have brought and no worker has taken yet. Pure: the caller gives the time.
//!
//! A poll brings up to ten messages, but there may be fewer ready workers. The other messages wait here, invisible in
//! SQS; those not taken within [`HOLD`], or a third of their lease, go back. A message that only a busy pool takes waits for half of its lease, at
//! most five minutes. Of a message group of a FIFO queue one message runs at a time, and none overtakes another.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use super::client::Message;
use model::{ClassFilter, Instant, JobId, Millis, NewJob};
use select::terms::HOLD;

/// The longest wait for a busy pool: a message that is hidden for hours is of use to another host.
const LONGEST_HOLD: Duration = Duration::from_secs(300);

/// A message in the buffer.
#[derive(Clone, Debug)]
pub(super) struct Buffered {
    pub message: Message,
    pub job: NewJob,
    /// When it was put, if that is known.
    pub put_at: Option<Millis>,
    /// Time of its arrival.
    pub since: Instant,
    /// Time from then on for which it is invisible for others.
    pub lease: Duration,
    /// Whether the latest pool that looked has skipped it because of its class.
    pub is_unwanted: bool,
}

/// The messages of one queue, in the order in which they came.
#[derive(Debug)]
pub(super) struct Buffer {
    waiting: VecDeque<Buffered>,
    /// Whether message groups have an order to keep, as in a FIFO queue.
    is_ordered: bool,
    /// The message groups of which one runs.
    running: HashSet<String>,
    /// The classes that each pool here takes.
    filters: BTreeMap<Arc<str>, ClassFilter>,
}

impl Buffer {
    /// An empty one, of a queue whose message groups have an order or have none.
    pub(super) fn new(is_ordered: bool) -> Buffer {
        Buffer { waiting: VecDeque::new(), is_ordered, running: HashSet::new(), filters: BTreeMap::new() }
    }

    /// How many wait, also those that only a busy pool takes.
    pub(super) fn total(&self) -> usize {
        self.waiting.len()
    }

    /// How many wait that a worker would take.
    pub(super) fn len(&self) -> usize {
        self.waiting.iter().filter(|one| !one.is_unwanted).count()
    }

    /// Adds a message. If it is here already, SQS has delivered it a second time: the newest handle counts.
    pub(super) fn add(&mut self, buffered: Buffered) {
        let double = self.waiting.iter_mut().find(|one| one.message.id == buffered.message.id);
        match double {
            Some(double) => double.message.handle = buffered.message.handle,
            None => self.waiting.push_back(buffered),
        }
    }

    /// Takes the first message that the pool's filter allows, unless it has waited for too long, or its group or its job
    /// runs.
    pub(super) fn take(
        &mut self,
        (pool, filter): (&Arc<str>, &ClassFilter),
        now: Instant,
        runs: impl Fn(&JobId) -> bool,
    ) -> Option<Buffered> {
        // What the other pools take decides how long a message waits for one of them.
        if self.filters.get(pool) != Some(filter) {
            self.filters.insert(pool.clone(), filter.clone());
        }
        let mut passed: HashSet<String> = HashSet::new();
        let mut found = None;
        for (at, one) in self.waiting.iter_mut().enumerate() {
            let group = one.message.group.as_ref().filter(|_| self.is_ordered);
            let is_free = group.is_none_or(|group| !self.running.contains(group) && !passed.contains(group));
            let is_wanted = filter.matches(&one.job.class);
            let is_late = now.since(one.since) >= patience(&self.filters, one);
            one.is_unwanted = !is_wanted;
            if is_free && is_wanted && !is_late && !one.job.id.as_ref().is_some_and(&runs) {
                found = Some(at);
                break;
            }
            // What stays keeps the later messages of its group behind it.
            passed.extend(group.cloned());
        }
        let taken = self.waiting.remove(found?)?;
        self.running.extend(taken.message.group.clone().filter(|_| self.is_ordered));
        Some(taken)
    }

    /// A message of the group has ended. If it was not deleted, gives those behind it, which go back to SQS to keep
    /// their order.
    pub(super) fn ended(&mut self, group: &str, is_deleted: bool) -> Vec<Buffered> {
        self.running.remove(group);
        if is_deleted || !self.is_ordered {
            return Vec::new();
        }
        self.remove(|one| one.message.group.as_deref() == Some(group))
    }

    /// Takes the messages that have waited for too long. Those are unwanted whose class no pool here takes.
    pub(super) fn expired(&mut self, now: Instant) -> Vec<Buffered> {
        let filters = self.filters.clone();
        let mut late = self.remove(|one| now.since(one.since) >= patience(&filters, one));
        late.iter_mut().for_each(|one| one.is_unwanted = one.is_unwanted && !is_taken(&filters, one));
        late
    }

    /// Takes all messages.
    pub(super) fn drain(&mut self) -> Vec<Buffered> {
        self.remove(|_| true)
    }

    fn remove(&mut self, which: impl Fn(&Buffered) -> bool) -> Vec<Buffered> {
        let (gone, left): (Vec<Buffered>, Vec<Buffered>) = self.waiting.drain(..).partition(which);
        self.waiting = left.into();
        gone
    }
}

/// Whether a pool here takes jobs of its class.
fn is_taken(filters: &BTreeMap<Arc<str>, ClassFilter>, one: &Buffered) -> bool {
    filters.values().any(|filter| filter.matches(&one.job.class))
}

/// How long a message waits here. One that the ready pool skips and a busy pool takes waits longer: made visible it would
/// come back with the next poll.
fn patience(filters: &BTreeMap<Arc<str>, ClassFilter>, one: &Buffered) -> Duration {
    if one.is_unwanted && is_taken(filters, one) {
        for_a_busy_pool(one.lease)
    } else {
        for_any_pool(one.lease)
    }
}

/// How long a message that is hidden for a lease waits here. What is left of the lease must be enough to renew it.
pub(super) fn for_any_pool(lease: Duration) -> Duration {
    HOLD.min(lease / 3)
}

/// How long such a message waits here for a busy pool.
pub(super) fn for_a_busy_pool(lease: Duration) -> Duration {
    (lease / 2).min(LONGEST_HOLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::{NewJob, Payload};

    fn buffered(id: &str, class: &str, group: Option<&str>, at: u64) -> Buffered {
        let message = Message {
            id: id.into(),
            job: id.into(),
            handle: String::new(),
            body: String::new(),
            received: 1,
            group: group.map(Into::into),
            sent: None,
        };
        let job = NewJob {
            id: Some(id.into()),
            ..NewJob::new("q".into(), class.into(), Payload::Data("1".into()))
        };
        let since = Instant::from_millis(at);
        let (put_at, lease) = (None, Duration::from_secs(60));
        Buffered { message, job, put_at, since, lease, is_unwanted: false }
    }

    fn pool() -> Arc<str> {
        "default".into()
    }

    fn ids(all: &[Buffered]) -> Vec<&str> {
        all.iter().map(|one| one.message.id.as_str()).collect()
    }

    #[test]
    fn matching_messages_are_taken_in_order() {
        let mut buffer = Buffer::new(false);
        for (id, class) in [("1", "a"), ("2", "b"), ("3", "a"), ("4", "a")] {
            buffer.add(buffered(id, class, None, 0));
        }
        let only = ClassFilter { only: vec!["a".into()], ..ClassFilter::default() };
        let mut take = |filter, count: usize| {
            let taken: Vec<Buffered> =
                (0..count).filter_map(|_| buffer.take((&pool(), filter), Instant(0), |_| false)).collect();
            ids(&taken).join(" ")
        };
        assert_eq!(take(&only, 2), "1 3");
        assert_eq!(take(&ClassFilter::default(), 9), "2 4");
        assert_eq!(buffer.len(), 0);
    }

    #[test]
    fn messages_of_a_group_are_taken_one_at_a_time_and_in_order() {
        let mut buffer = Buffer::new(true);
        for (id, group) in [("1", "g"), ("2", "g"), ("3", "h"), ("4", "g")] {
            buffer.add(buffered(id, "a", Some(group), 0));
        }
        let take = |buffer: &mut Buffer| {
            buffer
                .take((&pool(), &ClassFilter::default()), Instant(0), |_| false)
                .map(|one| one.message.id)
                .unwrap_or_default()
        };
        assert_eq!([take(&mut buffer), take(&mut buffer)], ["1", "3"]);
        assert_eq!(take(&mut buffer), "", "1 runs");
        assert!(buffer.ended("g", true).is_empty());
        assert_eq!(take(&mut buffer), "2");
        assert_eq!(ids(&buffer.ended("g", false)), ["4"], "2 comes again, and 4 after it");
    }

    #[test]
    fn tenants_of_a_fair_queue_have_no_order() {
        let mut buffer = Buffer::new(false);
        for id in ["1", "2", "3"] {
            buffer.add(buffered(id, "a", Some("ann"), 0));
        }
        let mut take = || buffer.take((&pool(), &ClassFilter::default()), Instant(0), |_| false);
        let taken: Vec<Buffered> = (0..2).filter_map(|_| take()).collect();
        assert_eq!(ids(&taken), ["1", "2"]);
        assert!(buffer.ended("ann", false).is_empty(), "3 waits on");
    }

    #[test]
    fn filtered_message_blocks_its_group() {
        let mut buffer = Buffer::new(true);
        buffer.add(buffered("1", "b", Some("g"), 0));
        buffer.add(buffered("2", "a", Some("g"), 0));
        let only = ClassFilter { only: vec!["a".into()], ..ClassFilter::default() };
        assert!(buffer.take((&pool(), &only), Instant(0), |_| false).is_none());
    }

    #[test]
    fn message_of_a_running_job_waits_for_its_end() {
        let mut buffer = Buffer::new(false);
        buffer.add(buffered("1", "a", None, 0));
        let all = ClassFilter::default();
        assert!(buffer.take((&pool(), &all), Instant(0), |job| job.as_str() == "1").is_none());
        assert_eq!(
            ids(&buffer.take((&pool(), &all), Instant(0), |_| false).into_iter().collect::<Vec<_>>()),
            ["1"]
        );
    }

    #[test]
    fn message_delivered_twice_is_buffered_once_with_its_newest_handle() {
        let mut buffer = Buffer::new(false);
        let second = Message { handle: "new".into(), ..buffered("1", "a", None, 0).message };
        buffer.add(buffered("1", "a", None, 0));
        buffer.add(Buffered { message: second, ..buffered("1", "a", None, 1) });
        assert_eq!(buffer.len(), 1);
        assert_eq!(buffer.drain()[0].message.handle, "new");
    }

    #[test]
    fn message_waits_for_5_s_and_a_third_of_its_lease_at_most_and_for_a_busy_pool_longer() {
        let waits = |wait: fn(Duration) -> Duration| {
            [6, 60, 43_200].map(|lease| wait(Duration::from_secs(lease)).as_secs())
        };
        assert_eq!((waits(for_any_pool), waits(for_a_busy_pool)), ([2, 5, 5], [3, 30, 300]));
    }

    #[test]
    fn untaken_messages_are_released() {
        let mut buffer = Buffer::new(false);
        buffer.add(buffered("1", "a", None, 0));
        buffer.add(buffered("2", "a", None, 3000));
        assert!(buffer.expired(Instant::from_millis(4999)).is_empty());
        assert_eq!(ids(&buffer.expired(Instant::from_millis(5000))), ["1"]);
        assert_eq!(ids(&buffer.drain()), ["2"]);
    }

    #[test]
    fn message_of_a_busy_pool_waits_for_half_of_its_lease_and_is_wanted() {
        let mut buffer = Buffer::new(false);
        let only = |class: &str| ClassFilter { only: vec![class.into()], ..ClassFilter::default() };
        let (quick, long): (Arc<str>, Arc<str>) = ("quick".into(), "long".into());
        assert!(buffer.take((&long, &only("slow")), Instant(0), |_| false).is_none());
        buffer.add(buffered("1", "slow", None, 0));
        buffer.add(buffered("2", "slow", None, 0));
        buffer.add(buffered("3", "other", None, 0));
        assert!(buffer.take((&quick, &only("ok")), Instant(0), |_| false).is_none());
        assert_eq!((buffer.len(), buffer.total()), (0, 3));
        let late = buffer.expired(Instant::from_millis(5000));
        assert_eq!((ids(&late), late[0].is_unwanted), (vec!["3"], true), "no pool here takes it");
        let taken = buffer.take((&long, &only("slow")), Instant::from_millis(20_000), |_| false);
        assert_eq!(ids(&taken.into_iter().collect::<Vec<_>>()), ["1"]);
        assert!(buffer.take((&quick, &only("ok")), Instant::from_millis(20_000), |_| false).is_none());
        let late = buffer.expired(Instant::from_millis(30_000));
        assert_eq!((ids(&late), late[0].is_unwanted), (vec!["2"], false));
    }
}
