//! How often to look whether a job has ended.

use std::time::Duration;

/// How often to look whether a job has ended, should no event say so.
pub(super) const LOOK: Duration = Duration::from_secs(5);
/// The same while no event is heard: soon at first, as a tree that was told to end is mostly dead at once.
pub(super) const FIRST_LOOK: Duration = Duration::from_millis(10);
/// And at the latest.
const LAST_LOOK: Duration = Duration::from_millis(200);

/// The time until the look after one that came after this time.
pub(super) fn later(look: Duration) -> Duration {
    (look * 3 / 2).min(LAST_LOOK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn client_without_a_listener_looks_soon_at_first_and_five_times_a_second_later() {
        let looks: Vec<Duration> =
            std::iter::successors(Some(FIRST_LOOK), |look| Some(later(*look))).take(12).collect();
        let sum = |many: usize| looks[..many].iter().sum::<Duration>();
        assert!(sum(3) < Duration::from_millis(50) && sum(4) < Duration::from_millis(100), "{looks:?}");
        assert_eq!(looks[11], LAST_LOOK);
    }
}
