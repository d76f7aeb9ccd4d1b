//! Statistics of many durations.

use std::collections::BTreeMap;

use model::verb::Times;

/// Count, mean and spread (Welford's way), and a histogram by the lower bounds of its buckets in seconds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Spread {
    pub(super) count: u64,
    pub(super) mean: f64,
    /// The sum of the squared differences from the mean.
    pub(super) m2: f64,
    pub(super) histogram: BTreeMap<u32, u64>,
}

impl Spread {
    /// Adds one duration; a negative one counts as zero.
    pub(super) fn add(&mut self, millis: i64) {
        let millis = millis.max(0);
        let seconds = millis as f64 / 1000.0;
        self.count += 1;
        let from_old = seconds - self.mean;
        self.mean += from_old / self.count as f64;
        self.m2 += from_old * (seconds - self.mean);
        *self.histogram.entry(bucket(millis / 1000)).or_default() += 1;
    }

    /// Adds all of another (Chan's formula).
    pub(super) fn merge(&mut self, other: &Spread) {
        if other.count == 0 {
            return;
        }
        let (ours, theirs) = (self.count as f64, other.count as f64);
        let (apart, all) = (other.mean - self.mean, ours + theirs);
        self.count += other.count;
        self.mean += apart * theirs / all;
        self.m2 += other.m2 + apart * apart * ours * theirs / all;
        for (bucket, count) in &other.histogram {
            *self.histogram.entry(*bucket).or_default() += count;
        }
    }

    /// The form that is shown.
    pub(super) fn times(self) -> Times {
        let std = if self.count > 1 { (self.m2 / (self.count - 1) as f64).max(0.0).sqrt() } else { 0.0 };
        Times { count: self.count, mean: self.mean, std, histogram: self.histogram }
    }
}

/// The lower bound of a bucket: one for each second up to a minute, then for each minute, hour and day; 148 in all.
fn bucket(seconds: i64) -> u32 {
    const MINUTE: i64 = 60;
    const HOUR: i64 = 60 * MINUTE;
    const DAY: i64 = 24 * HOUR;
    // The last bucket has all longer durations.
    let seconds = seconds.min(6 * DAY);
    let width = match seconds {
        ..MINUTE => 1,
        MINUTE..HOUR => MINUTE,
        HOUR..DAY => HOUR,
        DAY.. => DAY,
    };
    u32::try_from(seconds / width * width).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[i64]) -> Spread {
        let mut spread = Spread::default();
        values.iter().for_each(|value| spread.add(*value));
        spread
    }

    #[test]
    fn mean_and_standard_deviation_are_correct() {
        let times = of(&[2000, 4000, 4000, 4000, 5000, 5000, 7000, 9000]).times();
        assert_eq!((times.count, times.mean), (8, 5.0));
        assert!((times.std - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12, "{}", times.std);
        assert_eq!(times.histogram, BTreeMap::from([(2, 1), (4, 3), (5, 2), (7, 1), (9, 1)]));
        assert_eq!((of(&[1500]).times().std, of(&[]).times().std), (0.0, 0.0));
    }

    #[test]
    fn merged_statistics_equal_those_of_one_process() {
        let all = [1, 999, 60_000, 3_000_000, 17, 86_400_000, 5, 5, 700_000_000];
        for cut in 0..=all.len() {
            let mut merged = of(&all[..cut]);
            merged.merge(&of(&all[cut..]));
            let whole = of(&all);
            assert_eq!((merged.count, &merged.histogram), (whole.count, &whole.histogram));
            assert!((merged.mean / whole.mean - 1.0).abs() < 1e-12, "{cut}: {merged:?} {whole:?}");
            assert!((merged.m2 / whole.m2 - 1.0).abs() < 1e-12, "{cut}: {merged:?} {whole:?}");
        }
    }

    #[test]
    fn there_are_148_buckets() {
        let all: std::collections::BTreeSet<u32> = (0..1_000_000).map(bucket).collect();
        assert_eq!(all.len(), 148);
        let ends = [0, 59, 60, 119, 120, 3_599, 3_600, 86_399, 86_400, 600_000, i64::MAX];
        let want = [0, 59, 60, 60, 120, 3_540, 3_600, 82_800, 86_400, 518_400, 518_400];
        assert_eq!(ends.map(bucket), want);
        assert_eq!(of(&[-5]).histogram, BTreeMap::from([(0, 1)]));
    }
}
