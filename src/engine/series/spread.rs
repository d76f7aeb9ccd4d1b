//! Durations by size classes that grow by a fifth each, so that a middle is known within 9 %.

use std::time::Duration;

/// The shortest duration that has a class of its own, in seconds.
const UNIT: f64 = 0.000_1;
/// Number of size classes from one duration to its double.
const DOUBLING: f64 = 4.0;
/// Number of size classes: the last one has what is longer than three years.
const CLASSES: u8 = 160;

/// How many durations fell into each size class.
#[derive(Clone, Debug, Default)]
pub(super) struct Spread {
    counts: Vec<u32>,
    total: u32,
}

/// A size class; 0 = none.
pub(super) type Size = u8;

impl Spread {
    pub(super) fn add(&mut self, duration: Duration) {
        let place = usize::from(size(duration));
        if self.counts.len() <= place {
            self.counts.resize(place + 1, 0);
        }
        self.counts[place] = self.counts[place].saturating_add(1);
        self.total = self.total.saturating_add(1);
    }

    /// Forgets them all; the memory stays.
    pub(super) fn clear(&mut self) {
        self.counts.fill(0);
        self.total = 0;
    }

    /// The size that this share of the durations do not exceed, in percent.
    pub(super) fn quantile(&self, percent: u64) -> Size {
        let wanted = (u64::from(self.total) * percent).div_ceil(100).max(1);
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += u64::from(*count);
            seen >= wanted
        });
        found.and_then(|place| Size::try_from(place).ok()).unwrap_or_default()
    }
}

fn size(duration: Duration) -> Size {
    let doublings = (duration.as_secs_f64() / UNIT).max(1.0).log2();
    // The floor of a number between 0 and 160.
    (1.0 + doublings * DOUBLING).min(f64::from(CLASSES)) as Size
}

/// The middle of a size class in seconds; None of none.
pub(super) fn seconds(size: Size) -> Option<f64> {
    let middle = UNIT * ((f64::from(size) - 0.5) / DOUBLING).exp2();
    // Three digits: more would be made up.
    (size > 0).then(|| format!("{middle:.2e}").parse().unwrap_or(middle))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_right_within_nine_percent() {
        let mut spread = Spread::default();
        (1..=1_000).for_each(|n| spread.add(Duration::from_millis(n)));
        for (percent, wanted) in [(50, 0.5), (95, 0.95), (100, 1.0)] {
            let found = seconds(spread.quantile(percent)).unwrap();
            assert!((found / wanted - 1.0).abs() < 0.1, "{percent}: {found}");
        }
        spread.clear();
        assert_eq!(seconds(spread.quantile(50)), None);
        spread.add(Duration::ZERO);
        spread.add(Duration::MAX);
        assert_eq!((spread.quantile(50), spread.quantile(100)), (1, CLASSES));
    }
}
