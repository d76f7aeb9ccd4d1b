//! The picture of `status`: the verdict first, then who is whose child.

use std::fmt::Write as _;
use std::ops::Range;

use super::queue;
use super::screen::{Look, age, escaped, size};
use crate::model::{Health, Millis, PoolStatus, Process, RunningJob, SlotState, SlotStatus, Status, Stop};

/// All of it. `now` is for the ages of queues.
pub fn render(status: &Status, now: Millis, look: &Look) -> String {
    let mut out = String::new();
    for line in head(status) {
        line.draw(look, &mut out);
    }
    out.push('\n');
    Node { line: keeper(status), below: below_keeper(status, look) }.draw(look, "", "", &mut out);
    if !status.queues.is_empty() {
        out.push('\n');
        out += &queue::render(&status.queues, now, look);
    }
    out
}

/// One line, of which one word may have a colour.
#[derive(Default)]
struct Line {
    text: String,
    colored: Option<(Range<usize>, &'static str)>,
}

const GREEN: &str = "\x1b[32m";
const YELLOW: &str = "\x1b[33m";
const RED: &str = "\x1b[31m";
const PLAIN: &str = "\x1b[0m";

impl Line {
    fn plain(text: impl Into<String>) -> Self {
        Line { text: text.into(), colored: None }
    }

    fn colored(&mut self, word: &str, color: &'static str) {
        let start = self.text.len();
        self.text += word;
        self.colored = Some((start..self.text.len(), color));
    }

    fn draw(&self, look: &Look, out: &mut String) {
        let text = look.cut(&self.text);
        match &self.colored {
            Some((word, color)) if look.color && text.is_char_boundary(word.end) && text.len() > word.end => {
                let (before, word, after) = (&text[..word.start], &text[word.clone()], &text[word.end..]);
                let _ = writeln!(out, "{before}{color}{word}{PLAIN}{after}");
            }
            _ => {
                let _ = writeln!(out, "{text}");
            }
        }
    }
}

/// A line with what is below it.
struct Node {
    line: Line,
    below: Vec<Node>,
}

impl Node {
    fn leaf(text: impl Into<String>) -> Self {
        Node { line: Line::plain(text), below: Vec::new() }
    }

    /// `own` stands before this line, `rest` before those below it.
    fn draw(self, look: &Look, own: &str, rest: &str, out: &mut String) {
        let indent = own.len();
        let Line { text, colored } = self.line;
        let colored = colored.map(|(word, color)| (word.start + indent..word.end + indent, color));
        Line { text: format!("{own}{text}"), colored }.draw(look, out);
        let last = self.below.len().saturating_sub(1);
        for (n, node) in self.below.into_iter().enumerate() {
            let (branch, stem) = match (n == last, look.ascii) {
                (false, false) => ("├─ ", "│  "),
                (true, false) => ("└─ ", "   "),
                (false, true) => ("|- ", "|  "),
                (true, true) => ("`- ", "   "),
            };
            node.draw(look, &format!("{rest}{branch}"), &format!("{rest}{stem}"), out);
        }
    }
}

fn head(status: &Status) -> Vec<Line> {
    let mut verdict = Line::default();
    let (word, color) = match status.verdict {
        Health::Healthy => ("healthy", GREEN),
        Health::Degraded => ("degraded", YELLOW),
        Health::Unhealthy => ("unhealthy", RED),
    };
    verdict.colored(word, color);
    let stopping = match status.stopping {
        None => "",
        Some(Stop::Drain) => "  stopping: drains",
        Some(Stop::Terminate) => "  stopping: TERM sent",
        Some(Stop::Kill) => "  stopping: KILL sent",
    };
    let trouble = status.broker_trouble.as_ref().map(|trouble| format!(" ({trouble})")).unwrap_or_default();
    verdict.text += &escaped(&format!(
        "  taskvisor {}  up {}  broker {}{trouble}{stopping}",
        status.version,
        age(status.up),
        status.broker
    ));
    let mut lines = vec![verdict];
    lines.extend(status.reasons.iter().map(|reason| Line::plain(format!("  {}", escaped(reason)))));
    let host = &status.host;
    lines.push(Line::plain(format!(
        "host {}  cpus {}  load {:.2}  memory {} of {}",
        escaped(&host.name),
        host.cpus,
        host.load,
        size(host.memory_used),
        size(host.memory_total)
    )));
    let settled: Vec<String> = status.settled.iter().map(|(verdict, n)| format!("{n} {verdict}")).collect();
    if !settled.is_empty() {
        lines.push(Line::plain(format!("settled {}", escaped(&settled.join(", ")))));
    }
    lines
}

fn keeper(status: &Status) -> Line {
    let keeper = &status.keeper;
    Line::plain(format!("keeper({})  {}", keeper.pid, used(keeper)))
}

fn below_keeper(status: &Status, look: &Look) -> Vec<Node> {
    let mut supervisor = format!("supervisor({})  {}", status.supervisor.pid, used(&status.supervisor));
    if status.supervisor_restarts > 0 {
        let _ = write!(supervisor, "  restarts {}", status.supervisor_restarts);
    }
    let supervisor = Node { line: Line::plain(supervisor), below: processes(&status.supervisor) };
    std::iter::once(supervisor).chain(status.pools.iter().map(|each| pool(each, look))).collect()
}

fn pool(pool: &PoolStatus, look: &Look) -> Node {
    let busy = pool.slots.iter().filter(|slot| !slot.jobs.is_empty()).count();
    let queues: Vec<&str> = pool.queues.iter().map(|queue| queue.as_str()).collect();
    let mut text = format!(
        "pool {}  {}  busy {busy}/{}  queues {}",
        pool.name,
        pool.mode,
        pool.slots.len(),
        queues.join(",")
    );
    if let Some(why) = &pool.probing {
        let _ = write!(text, "  probing: {why}");
    }
    Node {
        line: Line::plain(escaped(&text)),
        below: pool.slots.iter().map(|each| slot(each, look)).collect(),
    }
}

/// From here on a slot and its only job share a line.
const WIDE: usize = 120;

fn slot(slot: &SlotStatus, look: &Look) -> Node {
    let mut line = Line::plain(format!("{}.{} ", slot.slot, slot.generation));
    line.colored(slot.state.as_str(), color(slot));
    let _ = write!(line.text, " {}", age(slot.age));
    if let Some(until) = slot.until {
        let _ = write!(line.text, " (next in {})", age(until));
    }
    if let Some(process) = &slot.process {
        let _ = write!(line.text, "  pid {}  {}", process.pid, used_with_children(process));
    }
    let mut below = Vec::new();
    match slot.jobs.as_slice() {
        [only] if look.width.is_none_or(|width| width >= WIDE) => line.text += &format!("  {}", job(only)),
        jobs => below.extend(jobs.iter().map(|each| Node::leaf(job(each)))),
    }
    match (&slot.why, slot.restarts) {
        (None, 0) => {}
        (None, restarts) => below.push(Node::leaf(format!("restarts {restarts}"))),
        (Some(why), 0) => below.push(Node::leaf(escaped(why))),
        (Some(why), restarts) => {
            below.push(Node::leaf(format!("restarts {restarts}, last: {}", escaped(why))))
        }
    }
    below.extend(slot.process.iter().flat_map(processes));
    Node { line, below }
}

fn color(slot: &SlotStatus) -> &'static str {
    match slot.state {
        SlotState::Ready | SlotState::Busy => GREEN,
        SlotState::Starting | SlotState::Stopping => YELLOW,
        SlotState::Down if slot.until.is_none() => YELLOW,
        SlotState::Down | SlotState::Killed | SlotState::Unkillable => RED,
    }
}

/// The title comes last: it is what a narrow terminal may cut.
fn job(job: &RunningJob) -> String {
    let mut text = format!("job {} #{} {}", job.id, job.attempt, age(job.ran));
    if let Some(limit) = job.time_limit {
        let _ = write!(text, " of {}", age(limit));
    }
    if let Some(why) = &job.ending {
        let _ = write!(text, "  ending: {why}");
    }
    let _ = write!(text, "  {}", job.class);
    if !job.title.is_empty() {
        let _ = write!(text, ": {}", job.title);
    }
    escaped(&text).into_owned()
}

fn processes(of: &Process) -> Vec<Node> {
    of.children
        .iter()
        .map(|child| {
            let text =
                format!("{}({}) {}  {}", escaped(&child.name), child.pid, escaped(&child.state), used(child));
            Node { line: Line::plain(text), below: processes(child) }
        })
        .collect()
}

fn used(process: &Process) -> String {
    format!("rss {}  cpu {}", size(process.rss), age(process.cpu))
}

fn used_with_children(process: &Process) -> String {
    fn sum(process: &Process) -> (u64, std::time::Duration) {
        process.children.iter().map(sum).fold((process.rss, process.cpu), |a, b| (a.0 + b.0, a.1 + b.1))
    }
    let (rss, cpu) = sum(process);
    used(&Process { rss, cpu, ..Process::default() })
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::cli::page::tests::look;
    use crate::model::{Host, JobState, Pause, QueueCounts, SlotId};

    const NOW: Millis = Millis(1_790_000_060_000);

    fn process(pid: i32, name: &str, rss: u64, children: Vec<Process>) -> Process {
        let cpu = Duration::from_millis(u64::try_from(pid).unwrap() * 10);
        Process { pid, name: name.into(), state: "S".into(), rss: rss << 10, cpu, children }
    }

    fn place(index: u16, state: SlotState) -> SlotStatus {
        SlotStatus {
            slot: SlotId { pool: 0, index },
            generation: 7,
            state,
            age: Duration::from_millis(4_200),
            until: None,
            jobs: vec![],
            waits: vec![],
            restarts: 0,
            why: None,
            process: Some(process(830 + i32::from(index), "parked", 300, vec![])),
        }
    }

    fn running(title: &str) -> RunningJob {
        RunningJob {
            id: "0199aa00000070008000000000000001".into(),
            class: "exec".into(),
            title: title.into(),
            attempt: 1,
            ran: Duration::from_secs(4),
            time_limit: Some(Duration::from_secs(60)),
            ending: None,
        }
    }

    fn healthy() -> Status {
        let mut busy = place(1, SlotState::Busy);
        busy.jobs = vec![running("sh -c 'gzip -t a.gz | wc'")];
        let gzip = process(990, "gzip", 2_000, vec![]);
        busy.process = Some(process(831, "sh", 1_800, vec![gzip, process(991, "wc\x1b[2J", 900, vec![])]));
        Status {
            schema: Status::SCHEMA.into(),
            version: "0.1.0".into(),
            verdict: Health::Healthy,
            reasons: vec![],
            host: Host { name: "q1".into(), memory_total: 8 << 30, memory_used: 3 << 30, load: 0.5, cpus: 4 },
            keeper: process(812, "taskvisor", 700, vec![]),
            supervisor_restarts: 0,
            supervisor: process(813, "supervisor", 8_000, vec![]),
            up: Duration::from_secs(526_000),
            stopping: None,
            broker: "sqlite:/var/lib/taskvisor/store.db".into(),
            broker_trouble: None,
            settled: BTreeMap::from([("complete".into(), 48_112), ("failed".into(), 31)]),
            pools: vec![PoolStatus {
                name: "default".into(),
                mode: "fork".into(),
                queues: vec!["urgent".into(), "default".into()],
                probing: None,
                template: None,
                unknown: BTreeMap::new(),
                slots: vec![busy, place(2, SlotState::Ready)],
            }],
            queues: BTreeMap::from([(
                "default".into(),
                QueueCounts {
                    jobs: BTreeMap::from([(JobState::Waiting, 812), (JobState::Running, 1)]),
                    oldest_waiting: Some(Millis(1_790_000_000_000)),
                    paused: None,
                },
            )]),
        }
    }

    fn troubled() -> Status {
        let mut status = healthy();
        status.verdict = Health::Degraded;
        status.reasons = vec!["slot 3 backs off".into(), "slot 4 cannot be killed".into()];
        status.stopping = Some(Stop::Terminate);
        status.supervisor_restarts = 1;
        status.broker_trouble = Some("disk full".into());
        let mut down = place(3, SlotState::Down);
        (down.process, down.restarts, down.why) = (None, 3, Some("signal 11".into()));
        down.until = Some(Duration::from_millis(3_200));
        let mut stuck = place(4, SlotState::Unkillable);
        stuck.why = Some("in state D for 1m".into());
        let mut many = place(5, SlotState::Stopping);
        many.jobs = vec![running("one"), RunningJob { ending: Some("canceled".into()), ..running("two") }];
        status.pools[0].slots.extend([down, stuck, many]);
        status.pools[0].probing = Some("5 early deaths in 30s".into());
        let pause =
            Pause { since: Millis(1_790_000_000_000), by: "uid 7".into(), reason: Some("smtp down".into()) };
        status.queues.insert("mail".into(), QueueCounts { paused: Some(pause), ..QueueCounts::default() });
        status
    }

    #[test]
    fn a_healthy_tree() {
        insta::assert_snapshot!("healthy", render(&healthy(), NOW, &look(140)));
    }

    #[test]
    fn a_troubled_tree_says_why() {
        insta::assert_snapshot!("troubled", render(&troubled(), NOW, &look(140)));
    }

    #[test]
    fn a_narrow_ascii_terminal_cuts_titles() {
        let look = Look { ascii: true, ..look(80) };
        let text = render(&troubled(), NOW, &look);
        assert!(text.is_ascii() && text.lines().all(|line| line.len() <= 80));
        insta::assert_snapshot!("narrow_ascii", text);
    }

    #[test]
    fn colour_is_on_states_only_and_takes_no_room() {
        let plain = render(&troubled(), NOW, &look(100));
        let colored = render(&troubled(), NOW, &Look { color: true, ..look(100) });
        assert!(colored.contains("\x1b[32mbusy\x1b[0m") && colored.contains("\x1b[33mdegraded\x1b[0m"));
        let bare = [GREEN, YELLOW, RED, PLAIN].iter().fold(colored, |text, code| text.replace(code, ""));
        assert_eq!(bare, plain);
    }

    #[test]
    fn nothing_runs_yet() {
        let mut status = healthy();
        (status.pools, status.queues, status.settled) = (vec![], BTreeMap::new(), BTreeMap::new());
        insta::assert_snapshot!("empty", render(&status, NOW, &look(100)));
    }
}
