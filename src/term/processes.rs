//! The processes below a slot. Those that are equal share a line with their sum.

use std::fmt::Write as _;

use super::branch::{Line, Node};
use super::screen::{Look, age, escaped, size};
use model::Process;

/// The lines of the processes below one.
pub fn children(of: &Process, look: &Look) -> Vec<Node> {
    let line = |group: Vec<&Process>| match group.as_slice() {
        [only] => process(only, look),
        equal => Node::leaf(folded(equal, look)),
    };
    let more = of.cut.then(|| Node::leaf("and more, which are not counted"));
    of.groups(look.all).into_iter().map(line).chain(more).collect()
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
    let (rss, cpu) = process.uses();
    Process { rss, cpu, ..Process::default() }
}
