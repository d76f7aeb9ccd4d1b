//! When jobs ended: a number for each step of time.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::format::{FromTime, Seconds};
use super::{JobState, Millis};

/// When jobs ended. All arrays are as long, one number for each step; a step is twice as long whenever there would be more
/// than 120 of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Ends {
    /// The length of a step: whole seconds.
    #[serde(with = "Seconds")]
    pub step: Duration,
    /// When the first step began.
    #[serde(flatten, with = "FromTime::<Millis>")]
    pub from: Millis,
    /// Jobs that completed.
    pub complete: Vec<u32>,
    /// Jobs that failed or are held.
    pub failed: Vec<u32>,
    /// Jobs that were canceled.
    pub canceled: Vec<u32>,
}

impl Ends {
    /// Limit of the steps.
    const MOST: i64 = 120;

    /// Whether no job has ended.
    pub fn is_empty(&self) -> bool {
        self.complete.is_empty()
    }

    /// Counts one job more.
    pub(super) fn add(&mut self, at: Millis, state: JobState) {
        if self.is_empty() {
            self.step = Duration::from_secs(1);
            self.from = Millis(at.0 - at.0.rem_euclid(1000));
        }
        while self.steps(at) > Ends::MOST {
            self.widen();
        }
        let place = self.place(at);
        // Jobs come by the time of their put, and have ended in any order.
        if place < 0 {
            self.each(|numbers| {
                drop(numbers.splice(..0, std::iter::repeat_n(0, place.unsigned_abs() as usize)))
            });
            self.from.0 += place * self.width();
        }
        let (place, length) = (place.max(0) as usize, self.complete.len());
        self.each(|numbers| numbers.resize(length.max(place + 1), 0));
        // Only jobs that have ended come here. The other states are named so that a new state must be, too.
        let numbers = match state {
            JobState::Complete => &mut self.complete,
            JobState::Canceled | JobState::Canceling => &mut self.canceled,
            JobState::Failed
            | JobState::Held
            | JobState::Waiting
            | JobState::Delayed
            | JobState::Depends
            | JobState::Running => &mut self.failed,
        };
        numbers[place] = numbers[place].saturating_add(1);
    }

    /// The length of a step in milliseconds.
    fn width(&self) -> i64 {
        self.step.as_millis().max(1) as i64
    }

    /// In which step a moment is; below 0 before the first.
    fn place(&self, at: Millis) -> i64 {
        (at.0 - self.from.0).div_euclid(self.width())
    }

    /// How many steps there are with the one of this moment.
    fn steps(&self, at: Millis) -> i64 {
        let (place, length) = (self.place(at), self.complete.len() as i64);
        length.max(place + 1) - place.min(0)
    }

    /// Makes one step of each two.
    fn widen(&mut self) {
        let twice = self.width() * 2;
        let is_late = self.from.0.rem_euclid(twice) != 0;
        self.each(|numbers| {
            // A step begins at a multiple of its length, so the first one may be the later half of a longer step.
            if is_late {
                numbers.insert(0, 0);
            }
            *numbers =
                numbers.chunks(2).map(|two| two.iter().copied().fold(0, u32::saturating_add)).collect();
        });
        self.from.0 -= self.from.0.rem_euclid(twice);
        self.step *= 2;
    }

    fn each(&mut self, change: impl FnMut(&mut Vec<u32>)) {
        [&mut self.complete, &mut self.failed, &mut self.canceled].into_iter().for_each(change);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_counted_in_steps_that_grow_with_the_time_between_them() {
        let mut ends = Ends::default();
        ends.add(Millis(5_500), JobState::Complete);
        ends.add(Millis(3_000), JobState::Failed);
        ends.add(Millis(7_999), JobState::Canceled);
        let numbers = |ends: &Ends| (ends.complete.clone(), ends.failed.clone(), ends.canceled.clone());
        assert_eq!((ends.from, ends.step), (Millis(3_000), Duration::from_secs(1)));
        assert_eq!(numbers(&ends), (vec![0, 0, 1, 0, 0], vec![1, 0, 0, 0, 0], vec![0, 0, 0, 0, 1]));
        ends.add(Millis(-600_000), JobState::Complete);
        assert_eq!((ends.from, ends.step), (Millis(-600_000), Duration::from_secs(8)));
        assert_eq!((ends.complete.len(), ends.complete[0], ends.complete[75]), (76, 1, 1));
        assert_eq!(ends.failed.iter().sum::<u32>() + ends.canceled.iter().sum::<u32>(), 2);
    }

    #[test]
    fn a_hundred_thousand_ends_over_a_month_are_120_steps_at_most() {
        let mut ends = Ends::default();
        for number in 0..100_000_i64 {
            ends.add(Millis(2_600_000_000 - number * 26_000), JobState::Complete);
        }
        assert!(
            ends.complete.len() <= 120 && ends.failed.len() == ends.complete.len(),
            "{}",
            ends.complete.len()
        );
        assert_eq!(ends.complete.iter().sum::<u32>(), 100_000);
    }
}
