//! Processes below one another: which are equal, and what they use together.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Process;

/// From this number on, equal things share a line.
pub const FEWEST: usize = 4;

impl Process {
    /// The processes below it: each alone, but together those with the same name and state, and the same below them,
    /// unless they are few or all are wanted.
    pub fn groups(&self, all: bool) -> Vec<Vec<&Process>> {
        let shapes: Vec<String> = self.children.iter().map(Process::shape).collect();
        let mut equal: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
        for (shape, child) in shapes.iter().zip(&self.children) {
            equal.entry(shape).or_default().push(child);
        }
        let mut groups = Vec::new();
        for (shape, child) in shapes.iter().zip(&self.children) {
            match equal.get(shape.as_str()) {
                Some(many) if many.len() >= FEWEST && !all => groups.extend(equal.remove(shape.as_str())),
                Some(_) => groups.push(vec![child]),
                // It is in a group that is there already.
                None => {}
            }
        }
        groups
    }

    /// What makes two processes equal.
    fn shape(&self) -> String {
        let below: Vec<String> = self.children.iter().map(Process::shape).collect();
        format!("{}\n{}\n{}\n", self.name, self.state, below.concat())
    }

    /// What it and all below it use: memory in bytes, and processor time.
    pub fn uses(&self) -> (u64, Duration) {
        self.children.iter().map(Process::uses).fold((self.rss, self.cpu), |a, b| (a.0 + b.0, a.1 + b.1))
    }
}
