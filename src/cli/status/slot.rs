//! A slot in the tree of `status`: its worker, its jobs, its processes, and why it is down.

use std::fmt::Write as _;

use crate::cli::term::branch::{GREEN, Line, Node, RED, YELLOW};
use crate::cli::term::processes::{children, used, with_children};
use crate::cli::term::screen::{Look, age, escaped, floods, percent};
use model::{Ordered, Process, RunningJob, SlotState, SlotStatus};

/// From this width on a slot and its only job share a line.
const WIDE: usize = 120;

/// The line of a worker, with the lines below it.
pub(crate) fn slot(slot: &SlotStatus, look: &Look) -> Node {
    named(format!("{}#{} ", slot.slot, slot.generation), slot, look)
}

/// The line of a template, which forks a pool's workers.
pub(crate) fn template(slot: &SlotStatus, look: &Look) -> Node {
    named("template ".into(), slot, look)
}

fn named(name: String, slot: &SlotStatus, look: &Look) -> Node {
    let mut line = Line::plain(name);
    line.colored(slot.state.as_str(), color(slot));
    let _ = write!(line.text, " {}", age(slot.age));
    if let Some(until) = slot.until {
        let _ = write!(line.text, " ({} {})", what_comes(slot.state), age(until));
    }
    if let Some(process) = &slot.process {
        let (used, halted) = (used(&with_children(process)), halted(process));
        let _ = write!(line.text, "  pid {}  {used}{halted}", process.pid);
    }
    let mut below = Vec::new();
    match slot.jobs.as_slice() {
        [only] if look.width.is_none_or(|width| width >= WIDE) => line.text += &format!("  {}", job(only)),
        jobs => below.extend(some(jobs, look, job)),
    }
    below.extend(some(&slot.waits, look, |id| {
        escaped(&format!("job {} waits to run here alone", id.shown())).into_owned()
    }));
    below.extend(trouble(slot));
    below.extend(warning(slot));
    below.extend(preloaded(slot));
    below.extend(slot.process.iter().flat_map(|process| children(process, look)));
    Node::new(line, below)
}

/// What happens at the deadline of a slot in this state.
fn what_comes(state: SlotState) -> &'static str {
    match state {
        SlotState::Down => "next in",
        SlotState::Starting => "must be ready in",
        SlotState::Stopping => "killed in",
        SlotState::Ready | SlotState::Busy | SlotState::Killed | SlotState::Unkillable => "ends in",
    }
}

/// The first few of many.
fn some<T>(all: &[T], look: &Look, text: impl Fn(&T) -> String) -> Vec<Node> {
    const SHOWN: usize = 10;
    let mut nodes: Vec<Node> = all.iter().take(SHOWN).map(|each| Node::leaf(text(each))).collect();
    if all.len() > SHOWN {
        let mark = if look.ascii { "..." } else { "…" };
        nodes.push(Node::leaf(format!("{mark} and {} more", all.len() - SHOWN)));
    }
    nodes
}

/// Why it is down or stuck, and the last output of a life that never became ready.
fn trouble(slot: &SlotStatus) -> Option<Node> {
    let words = match (&slot.why, slot.restarts) {
        (None, 0) => None,
        (None, restarts) => Some(format!("restarts {restarts}")),
        (Some(why), 0) => Some(why.clone()),
        (Some(why), restarts) => Some(format!("restarts {restarts}, last: {why}")),
    };
    // The words are of an earlier life: beside one that runs they would mislead.
    let trace = slot.trace.as_deref().filter(|_| slot.state == SlotState::Down).unwrap_or_default();
    let words = words.or_else(|| (!trace.is_empty()).then(|| "its last words on stderr".into()))?;
    Some(Node { text: last_lines(trace), ..Node::leaf(escaped(&words)) })
}

/// The warning of its worker: the first line, and the others below.
fn warning(slot: &SlotStatus) -> Option<Node> {
    let (first, rest) = slot.warning.as_deref().map(|text| text.split_once('\n').unwrap_or((text, "")))?;
    Some(Node { text: last_lines(rest), ..Node::leaf(escaped(&format!("warning: {first}"))) })
}

/// What a template has imported for all jobs, by its jobs' need.
fn preloaded(slot: &SlotStatus) -> Option<Node> {
    const SHOWN: usize = 6;
    let (shown, rest) = slot.preloaded.split_at(slot.preloaded.len().min(SHOWN));
    let more = if rest.is_empty() { String::new() } else { format!(" and {} more", rest.len()) };
    (!shown.is_empty()).then(|| Node::leaf(escaped(&format!("preloaded: {}{more}", shown.join(", ")))))
}

fn last_lines(text: &str) -> Vec<String> {
    const SHOWN: usize = 5;
    let shown = |line: &str| escaped(&line.replace('\t', "    ")).into_owned();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines.iter().skip(lines.len().saturating_sub(SHOWN)).map(|line| shown(line)).collect()
}

fn color(slot: &SlotStatus) -> &'static str {
    match slot.state {
        SlotState::Ready | SlotState::Busy => GREEN,
        SlotState::Starting | SlotState::Stopping => YELLOW,
        // It is not wanted now, or waits for its turn: that is no failure.
        SlotState::Down if slot.until.is_none() => YELLOW,
        SlotState::Down | SlotState::Killed | SlotState::Unkillable => RED,
    }
}

/// The line of a job. The title comes last, as a narrow terminal may cut it.
fn job(job: &RunningJob) -> String {
    let mut text = format!("job {} #{} {}", job.id.shown(), job.attempt, age(job.ran));
    if let Some(limit) = job.time_limit {
        let _ = write!(text, " of {}", age(limit));
    }
    if job.alone {
        text += " alone";
    }
    if let Some(fraction) = job.progress.as_ref().and_then(|progress| progress.fraction) {
        let _ = write!(text, " {}", percent(fraction));
    }
    if let Some(why) = &job.ending {
        let _ = write!(text, "  ending: {why}");
    }
    if let Some(stopped) = job.stopped {
        let _ = write!(text, "  stopped for {}", age(stopped));
    }
    if let Some(flood) = &job.flood {
        let _ = write!(text, "  {}", floods(flood));
    }
    let _ = write!(text, "  {}", job.class.shown());
    if !job.title.is_empty() {
        let _ = write!(text, ": {}", job.title);
    }
    if let Some(message) = job.progress.as_ref().and_then(|progress| progress.message.as_deref()) {
        let _ = write!(text, "  ({message})");
    }
    escaped(&text).into_owned()
}

/// The author of an order, and its time.
pub(crate) fn by(order: Option<&Ordered>, look: &Look) -> String {
    order.map(|order| format!(" by {} at {}", order.by, look.moment(order.since))).unwrap_or_default()
}

/// The state of a slot's first process, if it is one that people ask about.
fn halted(process: &Process) -> &'static str {
    match process.state.as_str() {
        "T" => "  stopped",
        "t" => "  stopped by a debugger",
        "D" => "  waits for the disk",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use crate::cli::record::page::tests::look;
    use crate::cli::status::tree::render;
    use crate::cli::status::tree::tests::{NOW, of_classes};

    #[test]
    fn words_of_a_template_are_shown_below_it() {
        let mut status = of_classes();
        let template = status.pools[0].template.as_mut().unwrap();
        template.warning = Some("it inherits\n  sockets: unix (descriptor 7)\x1b[2J\nUse hooks".into());
        template.preloaded = ["a", "b"].map(String::from).into();
        let text = render(&status, NOW, &look(140));
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words} is not in {text}"));
        assert!(at("template ready") < at("warning: it inherits"), "{text}");
        assert!(at("warning: it inherits") < at("sockets: unix (descriptor 7)"), "{text}");
        assert!(at("sockets: unix") < at("Use hooks") && !text.contains('\x1b'), "{text}");
        assert!(at("Use hooks") < at("preloaded: a, b"), "{text}");
    }
}
