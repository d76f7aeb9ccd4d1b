//! Calls of a worker that are not answered yet.

/// Largest weight of one worker's unanswered calls. A worker that exceeds it is not read until some are answered.
const MOST: usize = 8;

/// Arguments of this many bytes weigh as much as one call.
const BYTES: usize = 512 << 10;

/// A life's unanswered calls, with the numbers that the worker gave them, and their weights.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<(u64, usize)>);

impl Calls {
    /// Notes a call. A call whose answer may be as long as a frame takes the whole weight, and so do arguments as long:
    /// otherwise a worker could make the supervisor hold eight of each.
    pub(super) fn begin(&mut self, n: u64, verb: &str, args: usize) {
        let weight = if verb == "job" { MOST } else { 1 + args / BYTES };
        self.0.push((n, weight));
    }

    /// Forgets a call that is answered.
    pub(super) fn end(&mut self, n: u64) {
        if let Some(at) = self.0.iter().position(|(number, _)| *number == n) {
            self.0.swap_remove(at);
        }
    }

    /// Whether no more calls may be read for now.
    pub(super) fn are_full(&self) -> bool {
        self.0.iter().map(|(_, weight)| weight).sum::<usize>() >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_most_eight_small_calls_or_one_large_call_run_at_once() {
        let mut calls = Calls::default();
        (0..7).for_each(|n| calls.begin(n, "put", 100));
        assert!(!calls.are_full());
        calls.begin(7, "put", 100);
        assert!(calls.are_full());
        calls.end(3);
        assert!(!calls.are_full());
        for (verb, args) in [("job", 10), ("put", 4 << 20)] {
            let mut calls = Calls::default();
            calls.begin(1, verb, args);
            assert!(calls.are_full(), "{verb}");
            calls.end(1);
            assert!(!calls.are_full());
        }
    }
}
