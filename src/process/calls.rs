//! What a worker has asked for and is not answered yet.

/// The weight of what may be under way for one worker. A worker that asks for more is not listened to until it is answered.
const MOST: usize = 8;

/// Arguments of this many bytes weigh as much as a call.
const BYTES: usize = 512 << 10;

/// The calls under way of one life, by the numbers that the worker gave them.
#[derive(Debug, Default)]
pub(super) struct Calls(Vec<(u64, usize)>);

impl Calls {
    /// Notes a call. One whose answer may be as long as a frame is under way alone, and so is one with arguments as long:
    /// else a worker could have the supervisor hold eight of each.
    pub(super) fn begin(&mut self, n: u64, verb: &str, args: usize) {
        let weight = if verb == "job" { MOST } else { 1 + args / BYTES };
        self.0.push((n, weight));
    }

    /// Forgets it: it is answered.
    pub(super) fn end(&mut self, n: u64) {
        if let Some(at) = self.0.iter().position(|(number, _)| *number == n) {
            self.0.swap_remove(at);
        }
    }

    /// Whether no more is to be heard for now.
    pub(super) fn are_full(&self) -> bool {
        self.0.iter().map(|(_, weight)| weight).sum::<usize>() >= MOST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_small_calls_are_under_way_or_one_large_one() {
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
