//! The processes below a slot. Those that are equal share a line with their sum.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::branch::{Line, Node};
use super::screen::{Look, age, escaped, size};
use model::Process;

/// From this number on, equal things share a line.
pub const FEWEST: usize = 4;

/// The lines of the processes below one.
pub fn children(of: &Process, look: &Look) -> Vec<Node> {
    let line = |group: Vec<&Process>| match group.as_slice() {
        [only] => process(only, look),
        equal => Node::leaf(folded(equal, look)),
    };
    groups(of, look.all).into_iter().map(line).collect()
}

/// The processes below one: each alone, but together those with the same name and state, and the same below them, unless
/// they are few or all are wanted.
pub fn groups(of: &Process, all: bool) -> Vec<Vec<&Process>> {
    let shapes: Vec<String> = of.children.iter().map(shape).collect();
    let mut equal: BTreeMap<&str, Vec<&Process>> = BTreeMap::new();
    for (shape, child) in shapes.iter().zip(&of.children) {
        equal.entry(shape).or_default().push(child);
    }
    let mut groups = Vec::new();
    for (shape, child) in shapes.iter().zip(&of.children) {
        match equal.get(shape.as_str()) {
            Some(many) if many.len() >= FEWEST && !all => groups.extend(equal.remove(shape.as_str())),
            Some(_) => groups.push(vec![child]),
            // It is in a group that is there already.
            None => {}
        }
    }
    groups
}

fn process(of: &Process, look: &Look) -> Node {
    let text = format!("{}({}) {}  {}", escaped(&of.name), of.pid, escaped(&of.state), used(of));
    Node::new(Line::plain(text), children(of, look))
}

fn folded(equal: &[&Process], look: &Look) -> String {
    let first = equal[0];
    let mut text = format!("{} {}", escaped(&first.name), times(equal.len(), look));
    if first.state != "S" {
        let _ = write!(text, " {}", escaped(&first.state));
    }
    let _ = write!(text, "  {}", used(&equal.iter().copied().fold(Process::default(), add)));
    if let Some(below) = first.children.first() {
        let more = if first.children.len() > 1 { " and more" } else { "" };
        let _ = write!(text, "  each with {}{more}", escaped(&below.name));
    }
    text
}

/// What makes two processes equal.
fn shape(of: &Process) -> String {
    let below: Vec<String> = of.children.iter().map(shape).collect();
    format!("{}\n{}\n{}\n", of.name, of.state, below.concat())
}

/// The sum with what one more process and all below it use.
pub fn add(sum: Process, more: &Process) -> Process {
    let more = with_children(more);
    Process { rss: sum.rss + more.rss, cpu: sum.cpu + more.cpu, ..sum }
}

/// A number of equal things.
pub fn times(count: usize, look: &Look) -> String {
    format!("{}{count}", if look.ascii { 'x' } else { '×' })
}

/// What a process uses.
pub fn used(process: &Process) -> String {
    format!("rss {}  cpu {}", size(process.rss), age(process.cpu))
}

/// A process that uses what this one and all below it use.
pub fn with_children(process: &Process) -> Process {
    fn sum(process: &Process) -> (u64, std::time::Duration) {
        process.children.iter().map(sum).fold((process.rss, process.cpu), |a, b| (a.0 + b.0, a.1 + b.1))
    }
    let (rss, cpu) = sum(process);
    Process { rss, cpu, ..Process::default() }
}
