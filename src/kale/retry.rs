//! When kale runs a failed task again.

use std::time::Duration;

/// The wait before the next run: `multiple` for the first retry, twice that for the second, and so on, at most `longest`.
/// `retry_num` is the one of the message that failed, 0 for a task's first. kale has 60 s and 900 s.
pub fn retry_delay(retry_num: u64, multiple: Duration, longest: Duration) -> Duration {
    let factor = u32::try_from(retry_num).ok().and_then(|shift| 1_u32.checked_shl(shift));
    factor.and_then(|factor| multiple.checked_mul(factor)).map_or(longest, |delay| delay.min(longest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_the_longest_delay_of_sqs() {
        let delay =
            |retry_num| retry_delay(retry_num, Duration::from_secs(60), Duration::from_secs(900)).as_secs();
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 31, 32, u64::MAX].map(delay),
            [60, 120, 240, 480, 900, 900, 900, 900, 900]
        );
    }
}
