//! What was done and found, over all rounds of a broker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

/// Counts by name, and violations.
#[derive(Default)]
pub struct Tally {
    counts: Mutex<BTreeMap<String, usize>>,
    violations: Mutex<Vec<String>>,
}

impl Tally {
    pub fn add(&self, name: &str, count: usize) {
        *self.counts.lock().unwrap().entry(name.to_owned()).or_default() += count;
    }

    pub fn violation(&self, what: String) {
        println!("VIOLATION: {what}");
        self.violations.lock().unwrap().push(what);
    }

    /// The number of violations so far.
    pub fn found(&self) -> usize {
        self.violations.lock().unwrap().len()
    }

    pub fn is_clean(&self) -> bool {
        self.found() == 0
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts: Vec<String> =
            self.counts.lock().unwrap().iter().map(|(name, count)| format!("{count} {name}")).collect();
        write!(f, "  {}; {} violations", counts.join(", "), self.found())
    }
}
