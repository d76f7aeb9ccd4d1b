//! The tree of `status`: the verdict first, then pools, slots and processes.

use std::fmt::Write as _;

use super::fold::slots;
use super::page::page;
use super::slot::{by, template};
use crate::cli::queue;
use crate::cli::term::branch::{GREEN, Line, Node, RED, YELLOW};
use crate::cli::term::processes::{children, used};
use crate::cli::term::screen::{Look, age, escaped, size};
use model::{Health, LogStatus, Millis, PoolStatus, Status, Stop};

/// The whole text. `now` is for the ages of queues.
pub(crate) fn render(status: &Status, now: Millis, look: &Look) -> String {
    parts(status, now, look).concat()
}

/// The same in three parts: the verdict, the tree and the queues.
pub(crate) fn parts(status: &Status, now: Millis, look: &Look) -> [String; 3] {
    let (mut above, mut tree, mut below) = (String::new(), "\n".to_owned(), String::new());
    head(status).into_iter().for_each(|line| line.draw(look, &mut above));
    Node::new(keeper(status), below_keeper(status, look)).draw(look, "", "", &mut tree);
    if let Some(old) = status.queues_age {
        let _ = writeln!(below, "\nthe queues {} ago; the broker has not counted since", age(old));
    }
    if !status.queues.is_empty() {
        below.push('\n');
        below += &queue::render(&status.queues, now, look);
    }
    [above, tree, below]
}

fn head(status: &Status) -> Vec<Line> {
    let mut verdict = Line::default();
    let color = match status.verdict {
        Health::Healthy => GREEN,
        Health::Degraded => YELLOW,
        Health::Unhealthy => RED,
    };
    verdict.colored(status.verdict.as_str(), color);
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
    let store = status.store_bytes.map(|bytes| format!("store {}  ", size(bytes))).unwrap_or_default();
    lines.push(Line::plain(format!("{store}output of jobs {}", size(status.logs.output_bytes))));
    lines.extend(lost(&status.logs).map(Line::plain));
    lines.extend(unserved(status).map(Line::plain));
    lines
}

/// Jobs in queues from which no pool takes jobs, perhaps because of a misspelled name.
fn unserved(status: &Status) -> Option<String> {
    const SHOWN: usize = 5;
    // Jobs that have ended need no pool.
    let left = status.queues.iter().filter(|(_, queue)| queue.unserved && queue.to_run() > 0);
    let mut words: Vec<String> = left.map(|(name, queue)| format!("{name} ({})", queue.to_run())).collect();
    if let Some(more @ 1..) = words.len().checked_sub(SHOWN) {
        words.truncate(SHOWN);
        words.push(format!("and {more} more"));
    }
    (!words.is_empty())
        .then(|| escaped(&format!("no pool takes the jobs of {}", words.join(", "))).into_owned())
}

fn lost(logs: &LogStatus) -> Option<String> {
    let output = (logs.output_dropped > 0).then(|| format!("{} of output", size(logs.output_dropped)));
    let lines = (logs.lines_dropped > 0).then(|| format!("{} lines of the log", logs.lines_dropped));
    let lost: Vec<String> = output.into_iter().chain(lines).collect();
    (!lost.is_empty()).then(|| format!("dropped {}", lost.join(", ")))
}

fn keeper(status: &Status) -> Line {
    Line::plain(format!("keeper({})  {}", status.keeper.pid, used(&status.keeper)))
}

fn below_keeper(status: &Status, look: &Look) -> Vec<Node> {
    let mut supervisor = format!("supervisor({})  {}", status.supervisor.pid, used(&status.supervisor));
    if status.supervisor_restarts > 0 {
        let _ = write!(supervisor, "  restarts {}", status.supervisor_restarts);
    }
    let last = status.supervisor_last_end.as_ref();
    let last = last.map(|last| Node::leaf(escaped(&format!("the last one ended by {last}"))));
    let page = status.web.iter().map(page);
    let below = page.chain(last).chain(children(&status.supervisor, look)).collect();
    let supervisor = Node::new(Line::plain(supervisor), below);
    std::iter::once(supervisor).chain(status.pools.iter().map(|each| pool(each, look))).collect()
}

pub(crate) fn pool(pool: &PoolStatus, look: &Look) -> Node {
    let busy = pool.slots.iter().filter(|slot| !slot.jobs.is_empty()).count();
    let queues: Vec<&str> = pool.queues.iter().map(|queue| queue.as_str()).collect();
    let mut text = format!("pool {}  {}", pool.name, pool.mode);
    let has_more = pool.concurrency > 1;
    text += &if has_more { format!(" x{}", pool.concurrency) } else { String::new() };
    let _ = write!(text, "  busy {busy}/{}", pool.slots.len());
    if has_more {
        let jobs: usize = pool.slots.iter().map(|slot| slot.jobs.len()).sum();
        let _ = write!(text, "  jobs {jobs}");
    }
    let _ = write!(text, "  queues {}", queues.join(","));
    text += &pool.probing.as_ref().map(|why| format!("  probing: {why}")).unwrap_or_default();
    text += &pool.scaled.map(|workers| format!("  scaled to {workers}")).unwrap_or_default();
    text += &by(pool.scaled_by.as_ref(), look);
    if let Some(timed) = &pool.time_of_day {
        let _ = write!(text, "  {} workers from {}", timed.next_workers, look.moment(timed.next));
    }
    text += if pool.paused { "  paused" } else { "" };
    if let Some(pause) = &pool.pause {
        let _ = write!(text, " by {} since {}{}", pause.by, look.moment(pause.since), pause.because());
    }
    text += if pool.outdated { "  leaving" } else { "" };
    if pool.recycled.is_some() {
        let _ = write!(text, "  recycled{}", by(pool.recycled.as_ref(), look));
    }
    let suspect = pool.suspect.as_ref();
    let suspect = suspect
        .map(|id| Node::leaf(escaped(&format!("no other job begins: {} is to run alone", id.shown()))));
    let mut below: Vec<Node> = suspect.into_iter().chain(unknown(pool)).collect();
    below.extend(pool.template.iter().map(|each| template(each, look)));
    below.extend(slots(&pool.slots, look));
    // Others have chosen these names: none of their letters may steer the terminal.
    Node::new(Line::plain(escaped(&text)), below)
}

/// Classes that no worker knew, the most frequent first.
fn unknown(pool: &PoolStatus) -> Option<Node> {
    const SHOWN: usize = 3;
    let mut classes: Vec<_> = pool.unknown.iter().collect();
    classes.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    let mut words: Vec<String> =
        classes.iter().take(SHOWN).map(|(class, times)| format!("{class} ({times})")).collect();
    if let Some(more) = classes.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        words.push(format!("and {more} more"));
    }
    (!words.is_empty()).then(|| Node::leaf(escaped(&format!("known to no worker: {}", words.join(", ")))))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;
    use crate::cli::record::page::tests::look;
    use crate::cli::term::branch::PLAIN;
    use model::{
        Host, JobState, PageStatus, Pause, Process, Progress, QueueCounts, RunningJob, SlotId, SlotName,
        SlotState, SlotStatus,
    };

    pub(crate) const NOW: Millis = Millis(1_790_000_060_000);

    fn process(pid: i32, name: &str, rss: u64, children: Vec<Process>) -> Process {
        let cpu = Duration::from_millis(u64::try_from(pid).unwrap() * 10);
        Process { pid, name: name.into(), state: "S".into(), rss: rss << 10, cpu, children, cut: false }
    }

    fn place(index: u16, state: SlotState) -> SlotStatus {
        SlotStatus {
            slot: SlotName::new("default", index),
            place: SlotId::default(),
            generation: 7,
            state,
            age: Duration::from_millis(4_200),
            until: None,
            jobs: vec![],
            waits: vec![],
            leaving: None,
            failing: false,
            restarts: 0,
            why: None,
            trace: None,
            warning: None,
            preloaded: vec![],
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
            alone: false,
            died_before: None,
            progress: None,
            stopped: None,
            flood: None,
        }
    }

    pub(crate) fn healthy() -> Status {
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
            web: Some(PageStatus { url: Some("http://127.0.0.1:8080/".into()), pid: Some(829), restarts: 1 }),
            supervisor: process(813, "supervisor", 8_000, vec![]),
            up: Duration::from_secs(526_000),
            stopping: None,
            stop_deadline: Duration::from_secs(25),
            supervisor_last_end: None,
            store_bytes: Some(48 << 20),
            broker: "sqlite:/var/lib/taskvisor/store.db".into(),
            broker_trouble: None,
            logs: LogStatus { output_bytes: 3 << 30, ..LogStatus::default() },
            settled: BTreeMap::from([("complete".into(), 48_112), ("failed".into(), 31)]),
            pools: vec![PoolStatus {
                name: "default".into(),
                mode: "fork".into(),
                concurrency: 1,
                user: None,
                queues: vec!["urgent".into(), "default".into()],
                probing: None,
                paused: false,
                pause: None,
                suspect: None,
                outdated: false,
                scaled: None,
                scaled_by: None,
                recycled: None,
                time_of_day: None,
                template: None,
                grace: Duration::from_secs(10),
                unknown: BTreeMap::new(),
                slots: vec![busy, place(2, SlotState::Ready)],
            }],
            queues: BTreeMap::from([(
                "default".into(),
                QueueCounts {
                    jobs: BTreeMap::from([(JobState::Waiting, 812), (JobState::Running, 1)]),
                    oldest_waiting: Some(Millis(1_790_000_000_000)),
                    ..QueueCounts::default()
                },
            )]),
            queues_age: None,
        }
    }

    fn troubled() -> Status {
        let mut status = healthy();
        status.verdict = Health::Degraded;
        status.reasons = vec!["slot default.3 backs off".into(), "slot default.4 cannot be killed".into()];
        status.stopping = Some(Stop::Terminate);
        status.supervisor_restarts = 1;
        status.supervisor_last_end = Some("signal 9".into());
        status.broker_trouble = Some("disk full".into());
        status.queues_age = Some(Duration::from_secs(40));
        status.logs = LogStatus { output_dropped: 70_000, lines_dropped: 3, ..LogStatus::default() };
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

    /// A pool whose template loads an application, and one whose worker has a hundred jobs.
    pub(crate) fn of_classes() -> Status {
        let mut status = healthy();
        let forks = &mut status.pools[0];
        forks.template = Some(place(0, SlotState::Ready));
        let unknown = [("mail.Sned", 7), ("a", 1), ("b\x1b[2J", 2), ("c", 1)];
        forks.unknown = unknown.map(|(class, n)| (class.into(), n)).into();
        let mut down = SlotStatus { process: None, restarts: 2, ..place(3, SlotState::Down) };
        down.why = Some("ended before it was ready: exit 1".into());
        let trace = "one\ntwo\nTraceback (most recent call last):\n  File \"/srv/app.py\", line 3, in <module>\n\timport \x1b[31mrequets\n\nModuleNotFoundError: No module named 'requets'\n";
        down.trace = Some(trace.into());
        down.waits = vec!["poison".into()];
        forks.slots.push(down);
        let mut many = place(1, SlotState::Busy);
        let fetch = |n: u32| RunningJob {
            id: format!("0199aa0000007000800000000000{n:04}").as_str().into(),
            class: "web.Fetch".into(),
            progress: n.is_multiple_of(2).then(|| Progress {
                fraction: Some(f64::from(n) / 100.0),
                message: Some(format!("page {n}\nof 100")),
            }),
            ..running("")
        };
        many.jobs = (0..100).map(fetch).collect();
        status.pools.push(PoolStatus {
            name: "web".into(),
            mode: "coroutine".into(),
            concurrency: 100,
            slots: vec![many],
            ..status.pools[0].clone()
        });
        (status.pools[1].template, status.pools[1].unknown) = (None, BTreeMap::new());
        status
    }

    #[test]
    fn classes_templates_and_many_jobs() {
        insta::assert_snapshot!("classes", render(&of_classes(), NOW, &look(140)));
        let narrow = render(&of_classes(), NOW, &Look { ascii: true, ..look(80) });
        assert!(narrow.is_ascii() && narrow.lines().all(|line| line.len() <= 80));
        insta::assert_snapshot!("classes_narrow", narrow);
    }

    #[test]
    fn job_that_runs_alone_is_marked_and_the_pool_names_the_suspect() {
        let mut status = healthy();
        let pool = &mut status.pools[0];
        pool.suspect = Some("0199\x1b".into());
        pool.slots[0].jobs[0].alone = true;
        let text = render(&status, NOW, &look(140));
        assert!(text.contains("no other job begins: 0199\\x1b is to run alone"), "{text}");
        assert!(text.contains("#1 4.0s of 1m alone  exec"), "{text}");
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
