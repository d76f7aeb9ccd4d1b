//! Statistics in memory that are not on file yet: of queues, and of classes.

use std::collections::BTreeMap;

use super::spread::Spread;
use model::verb::ClassSums;
use model::{Day, Millis, Sum, Today};

/// How long statistics wait to be written, in milliseconds.
const DELAY: i64 = 1_000;

/// The statistics of a queue on a day.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    pub(super) wait: Spread,
    pub(super) run: Spread,
    /// Attempts that failed and were tried again.
    pub(super) retries: i64,
    /// Jobs that failed.
    pub(super) failures: i64,
    /// The same without jobs that have left that state: less than zero, if they had failed on an earlier day.
    pub(super) failed: i64,
}

impl Figures {
    pub(super) fn merge(&mut self, other: &Figures) {
        self.wait.merge(&other.wait);
        self.run.merge(&other.run);
        self.retries += other.retries;
        self.failures += other.failures;
        self.failed += other.failed;
    }

    /// The figures that can be added up.
    pub(super) fn in_sums(&self) -> Today {
        let sum = |spread: &Spread| Sum { count: spread.count, seconds: spread.mean * spread.count as f64 };
        Today {
            wait: sum(&self.wait),
            run: sum(&self.run),
            retries: number(self.retries),
            failures: number(self.failures),
            failed: number(self.failed),
        }
    }
}

/// Statistics that are not on file yet.
#[derive(Default)]
pub(super) struct Gathered {
    /// By the row of the queue and the day.
    pub(super) queues: BTreeMap<(i64, Day), Figures>,
    pub(super) classes: ClassFigures,
}

impl Gathered {
    /// The statistics of a queue on the day of a moment.
    pub(super) fn on(&mut self, queue: i64, at: i64) -> &mut Figures {
        self.queues.entry((queue, Day::of(Millis(at)))).or_default()
    }

    /// Adds the end of an attempt to the sums of its class.
    pub(super) fn add_to_class(&mut self, class: &str, sums: &ClassSums, at: i64) {
        self.classes.add(Day::of(Millis(at)), class, sums);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.classes.is_empty()
    }

    /// Adds what another has collected; gives when to write it, if there is anything.
    pub(super) fn merge(&mut self, other: Gathered, now: i64) -> Option<i64> {
        for (key, figures) in other.queues {
            self.queues.entry(key).or_default().merge(&figures);
        }
        self.classes.merge(other.classes);
        (!self.is_empty()).then(|| now.saturating_add(DELAY))
    }

    /// Drops the statistics of a removed queue.
    pub(super) fn forget(&mut self, queue: i64) {
        self.queues.retain(|(of, _), _| *of != queue);
    }
}

/// Sums by day and class. The number of classes in a day is limited; the rest are under an empty name.
#[derive(Default)]
pub(super) struct ClassFigures(BTreeMap<Day, BTreeMap<String, ClassSums>>);

impl ClassFigures {
    pub(super) fn add(&mut self, day: Day, class: &str, sums: &ClassSums) {
        let classes = self.0.entry(day).or_default();
        // The empty name has the sums of the rest, and takes no place of a class.
        let named = classes.len() - usize::from(classes.contains_key(""));
        let is_new = !classes.contains_key(class);
        let class = if is_new && named >= ClassSums::CLASSES_MAX { "" } else { class };
        match classes.get_mut(class) {
            Some(known) => known.merge(sums),
            None => drop(classes.insert(class.to_owned(), *sums)),
        }
    }

    pub(super) fn merge(&mut self, other: ClassFigures) {
        for (day, class, sums) in other.into_rows() {
            self.add(day, &class, &sums);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn rows(&self) -> impl Iterator<Item = (Day, &str, &ClassSums)> {
        let days = self.0.iter();
        days.flat_map(|(day, classes)| classes.iter().map(|(class, sums)| (*day, class.as_str(), sums)))
    }

    pub(super) fn into_rows(self) -> impl Iterator<Item = (Day, String, ClassSums)> {
        let days = self.0.into_iter();
        days.flat_map(|(day, classes)| classes.into_iter().map(move |(class, sums)| (day, class, sums)))
    }
}

pub(super) fn number(count: i64) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
