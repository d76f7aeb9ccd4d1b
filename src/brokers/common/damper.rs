//! Limits log lines that strangers cause: anybody who can send a message or a command could fill the log.

use std::sync::Mutex;
use std::time::Duration;

use crate::lock::lock;
use model::Instant;

/// Limit of the lines of one kind in one period.
const MOST: u64 = 10;
const PERIOD: Duration = Duration::from_secs(60);

/// Counts the lines of one kind.
#[derive(Debug, Default)]
pub struct Damper(Mutex<Counted>);

#[derive(Debug, Default)]
struct Counted {
    began: Option<Instant>,
    lines: u64,
}

impl Damper {
    /// Whether a line may be logged now; with the number of those that were left out before it.
    pub fn allows(&self, now: Instant) -> Option<u64> {
        let mut counted = lock(&self.0);
        let is_new = counted.began.is_none_or(|began| now.since(began) >= PERIOD);
        let left_out = if is_new {
            let left_out = counted.lines.saturating_sub(MOST);
            *counted = Counted { began: Some(now), lines: 0 };
            left_out
        } else {
            0
        };
        counted.lines += 1;
        (counted.lines <= MOST).then_some(left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_lines_a_minute_are_allowed_and_the_rest_is_counted() {
        let damper = Damper::default();
        let at = |seconds: u64| Instant::from_millis(seconds * 1000);
        assert_eq!((0..25).filter_map(|_| damper.allows(at(0))).collect::<Vec<_>>(), vec![0; 10]);
        assert_eq!(damper.allows(at(59)), None);
        assert_eq!(damper.allows(at(60)), Some(16), "those of the minute before");
        assert_eq!(damper.allows(at(60)), Some(0));
    }
}
