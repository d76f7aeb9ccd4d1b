//! What is drawn, and what keys do, on a screen of a made-up supervisor.
#![allow(missing_docs, clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::time::Duration;

use model::{
    Health, Host, JobRecord, JobState, LogStatus, Millis, PoolStatus, Process, PublishedEvent, QueueCounts,
    RunningJob, SlotId, SlotName, SlotState, SlotStatus, Status, What,
};
use taskvisor_top::actions::actions;
use taskvisor_top::ask::{List, News, Request, Seen};
use taskvisor_top::keys::{Effect, press};
use taskvisor_top::order::Act;
use taskvisor_top::screen::decode::Decoder;
use taskvisor_top::screen::grid::Grid;
use taskvisor_top::state::{Line, Model};
use taskvisor_top::thing::{Tab, Thing};
use taskvisor_top::view::draw;
use term::screen::Look;

const NOW: i64 = 1_790_000_060_000;

fn process(pid: i32, name: &str, rss: u64, children: Vec<Process>) -> Process {
    let cpu = Duration::from_millis(u64::try_from(pid).unwrap() * 10);
    Process { pid, name: name.into(), state: "S".into(), rss: rss << 10, cpu, children, cut: false }
}

fn slot(pool: &str, index: u16, title: Option<&str>) -> SlotStatus {
    let job = title.map(|title| RunningJob {
        id: format!("0199aa0000007000800000000000{index:04x}").as_str().into(),
        class: "exec".into(),
        title: title.into(),
        attempt: 1,
        ran: Duration::from_secs(u64::from(index) * 40),
        time_limit: None,
        ending: None,
        alone: false,
        died_before: None,
        progress: None,
        stopped: None,
        flood: None,
    });
    let pid = 800 + i32::from(index);
    let children = if title.is_some() {
        (1..=5).map(|n| process(900 + n, "gzip", 900, vec![])).collect()
    } else {
        vec![]
    };
    SlotStatus {
        slot: SlotName::new(pool, index),
        place: SlotId::default(),
        generation: 7,
        state: if title.is_some() { SlotState::Busy } else { SlotState::Ready },
        age: Duration::from_secs(72),
        until: None,
        jobs: job.into_iter().collect(),
        waits: vec![],
        leaving: None,
        failing: false,
        restarts: 0,
        why: None,
        trace: None,
        warning: None,
        preloaded: vec![],
        process: Some(process(pid, "sh", 1_800, children)),
    }
}

pub fn pool(name: &str, slots: Vec<SlotStatus>) -> PoolStatus {
    PoolStatus {
        name: name.into(),
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
        slots,
    }
}

fn counts(waiting: u64) -> QueueCounts {
    let jobs = [(JobState::Waiting, waiting), (JobState::Running, 3), (JobState::Failed, 1)].into();
    QueueCounts { jobs, oldest_waiting: Some(Millis(NOW - 90_000)), ..QueueCounts::default() }
}

pub fn status(pools: Vec<PoolStatus>) -> Status {
    Status {
        schema: Status::SCHEMA.into(),
        version: "0.1.0".into(),
        verdict: Health::Degraded,
        reasons: vec!["1 held: taskvisor job list --state held".into()],
        host: Host { name: "q1".into(), memory_total: 8 << 30, memory_used: 3 << 30, load: 0.5, cpus: 4 },
        keeper: process(1, "taskvisor", 700, vec![]),
        supervisor_restarts: 0,
        web: None,
        supervisor: process(2, "supervisor", 8_000, vec![]),
        up: Duration::from_secs(526_000),
        stopping: None,
        stop_deadline: Duration::from_secs(25),
        supervisor_last_end: None,
        store_bytes: None,
        broker: "sqlite:/var/lib/taskvisor/store.db".into(),
        broker_trouble: None,
        logs: LogStatus::default(),
        settled: BTreeMap::from([("complete".into(), 48_112), ("failed".into(), 31)]),
        pools,
        queues: [("default".into(), counts(120)), ("メール".into(), counts(7)), ("שלום".into(), counts(0))]
            .into(),
        queues_age: None,
    }
}

fn seen(status: Option<Status>, list: List) -> News {
    let place = "/run/taskvisor/ctl.sock".into();
    let tab = if matches!(list, List::Jobs(_)) { Tab::Jobs } else { Tab::Slots };
    News::Seen(Box::new(Seen {
        tab,
        at: Millis(NOW),
        place,
        status,
        pressure: Some([1.2, 0.0, 7.9]),
        waits: Some(vec![None, Some(0.8), Some(2.5), None]),
        list: Ok(list),
    }))
}

fn usual() -> Status {
    let hostile = "evil \x1b[2J\x1b]0;title\x07 \u{202e}gnp.exe\0";
    let mail = vec![
        slot("mail", 1, Some("sh -c 'gzip -t a.gz | wc'")),
        slot("mail", 2, Some("漢字のとても長い名前のジョブ.py --すべて")),
        slot("mail", 3, Some("עבודה ארוכה.py")),
        slot("mail", 4, Some(hostile)),
        slot("mail", 5, None),
    ];
    let mut down = slot("video", 1, None);
    (down.state, down.until, down.process) = (SlotState::Down, Some(Duration::from_secs(9)), None);
    (down.why, down.restarts) = (Some("exit 1".into()), 3);
    status(vec![pool("mail", mail), pool("video", vec![down])])
}

fn screen(size: (usize, usize)) -> Model {
    let mut model = Model::new(Look { color: true, ..Look::piped(80) }, size, false);
    model.hear(seen(Some(usual()), List::None));
    model
}

fn jobs() -> List {
    let job = |n: u32, class: &str, state| {
        let id = format!("0199aa0000007000800000000000{n:04x}");
        JobRecord {
            put_at: Millis(NOW - 5_000),
            ..JobRecord::new(id.as_str().into(), "mail".into(), class.into(), state)
        }
    };
    List::Jobs(vec![
        job(9, "mail.Send", JobState::Waiting),
        job(2, "漢字", JobState::Running),
        job(1, "a\nb", JobState::Failed),
    ])
}

fn text(grid: &Grid) -> String {
    (0..grid.height).map(|line| grid.text(line) + "\n").collect()
}

/// Presses keys as they are typed; gives what they ask for.
fn typed(model: &mut Model, keys: &str) -> Vec<Effect> {
    let mut decoder = Decoder::default();
    let mut keys = decoder.feed(keys.as_bytes());
    keys.extend(decoder.rest());
    keys.into_iter().flat_map(|key| press(model, key)).collect()
}

#[test]
fn screens_have_their_snapshots() {
    for (size, name) in [((80, 24), "80x24"), ((120, 40), "120x40"), ((200, 60), "200x60")] {
        let mut model = screen(size);
        let page = "mail.1#7 busy 40s  pid 801\n   ├─ job 0199aa00\tסדר 漢字\n\x1b[31mred\n";
        let subject = model.subject().unwrap();
        model.hear(News::Page { of: subject, kind: taskvisor_top::ask::Kind::Page, text: page.into() });
        let slots = text(&draw(&model));
        typed(&mut model, "2");
        model.hear(seen(Some(usual()), List::None));
        let queues = text(&draw(&model));
        typed(&mut model, "3");
        model.hear(seen(Some(usual()), jobs()));
        let all = [slots, queues, text(&draw(&model))].join("\n");
        insta::assert_snapshot!(name, all);
    }
}

#[test]
fn head_without_a_supervisor_knows_what_waits_once_the_queues_were_looked_at() {
    let mut model = Model::new(Look::piped(80), (80, 24), false);
    model.hear(seen(None, List::None));
    assert!(draw(&model).text(2).contains("waiting not known yet"), "{}", draw(&model).text(2));
    let News::Seen(mut looked) = seen(None, List::Queues([("mail".into(), counts(7))].into())) else {
        unreachable!()
    };
    looked.tab = Tab::Queues;
    model.hear(News::Seen(looked));
    assert!(draw(&model).text(2).contains("waiting 7"), "{}", draw(&model).text(2));
}

#[test]
fn narrow_head_has_each_rate_however_long_it_has_looked() {
    let mut model = screen((80, 24));
    for second in 1..=60 {
        let News::Seen(mut looked) = seen(Some(usual()), List::None) else { unreachable!() };
        looked.at = Millis(NOW + second * 1_000);
        model.hear(News::Seen(looked));
    }
    let line = draw(&model).text(2);
    assert!(line.contains("complete 0.0/s") && line.contains("failed 0.0/s"), "{line}");
}

#[test]
fn hostile_text_leaves_every_letter_in_its_column() {
    for size in [(40, 8), (79, 16), (80, 24), (81, 25), (200, 60)] {
        let model = screen(size);
        let grid = draw(&model);
        for line in 0..grid.height {
            assert!(grid.line(line).iter().all(|cell| cell.letter == '\0'
                || !failure::escaped(&cell.letter.to_string()).starts_with('\\')
                || cell.letter == '\\'));
            // Each wide letter has its second column.
            for pair in grid.line(line).windows(2) {
                let wide = taskvisor_top::screen::grid::width(&pair[0].letter.to_string()) == 2;
                assert!(!wide || pair[1].letter == '\0' || pair[0].letter == '\0', "{}", grid.text(line));
            }
        }
    }
}

#[test]
fn uppercase_keys_show_the_command_and_wait_for_yes() {
    let mut model = screen((80, 24));
    typed(&mut model, "jC");
    let Line::Confirm(order) = model.line.clone() else { panic!("{:?}", model.line) };
    assert_eq!((order.act, order.many()), (Act::Cancel, "1 job".into()));
    let last = draw(&model).text(23);
    assert_eq!(last, "taskvisor job cancel --wait 0199aa000000700080000000000000… 1 job? Y/n, y copies");
    assert_eq!(typed(&mut model, "\rzC "), [], "only Y does it");
    assert_eq!(typed(&mut model, "n"), []);
    assert_eq!(model.line, Line::Keys);
    assert_eq!(typed(&mut model, "CY"), [Effect::Ask(Request::Do(order.clone()))]);
    assert_eq!(model.doing, 1);
    assert_eq!(typed(&mut model, "Cy"), [Effect::Copy(order.command("taskvisor "))]);
    assert_eq!(typed(&mut model, "\x1b[200~KY\x1b[201~"), [], "pasted text is no order");
    assert_eq!(typed(&mut model, "gN"), []);
    let Line::Confirm(order) = &model.line else { panic!("{:?}", model.line) };
    assert_eq!(order.command("taskvisor "), "taskvisor recycle mail");
    typed(&mut model, "\x1b");
    model.hear(News::Done(Err("no such job".into())));
    assert!(draw(&model).text(23).starts_with("no such job"));
}

#[test]
fn marks_make_an_order_about_many() {
    let mut model = screen((120, 40));
    typed(&mut model, "3");
    model.hear(seen(Some(usual()), jobs()));
    typed(&mut model, "  R");
    let Line::Confirm(order) = &model.line else { panic!("{:?}", model.line) };
    assert_eq!((order.names.len(), order.many()), (2, "2 jobs".into()));
    typed(&mut model, "na");
    assert!(model.place().marks.is_empty(), "what was marked is taken away first");
    assert!(typed(&mut model, "aK").is_empty());
    let Line::Confirm(order) = &model.line else { panic!("{:?}", model.line) };
    assert_eq!(order.command("taskvisor "), "kill -KILL 801 802", "of the jobs that run");
}

fn names(model: &Model) -> Vec<String> {
    let Line::Confirm(order) = &model.line else { panic!("{:?}", model.line) };
    order.names.clone()
}

#[test]
fn orders_name_the_jobs_of_the_marked_events() {
    let mut model = screen((120, 40));
    typed(&mut model, "7");
    let failed = |job: &str| PublishedEvent {
        job: Some(job.into()),
        ..PublishedEvent::new(What::Failed, Millis(NOW))
    };
    model.hear(News::Happened(vec![failed("one"), failed("two"), failed("three")]));
    typed(&mut model, "g  R");
    assert_eq!(names(&model), ["two", "three"], "the newest stand first");
}

#[test]
fn orders_are_about_nothing_that_is_not_shown() {
    let mut model = screen((120, 40));
    typed(&mut model, "3");
    model.hear(seen(Some(usual()), jobs()));
    let all: Vec<String> = model.table.rows.iter().map(|row| row.thing.name()).collect();
    // One of those that are marked goes.
    typed(&mut model, "a");
    let List::Jobs(mut fewer) = jobs() else { unreachable!() };
    fewer.retain(|job| job.id.as_str() != all[0]);
    model.hear(seen(Some(usual()), List::Jobs(fewer)));
    typed(&mut model, "R");
    assert_eq!(names(&model).len(), 2, "{all:?}");
    assert!(!names(&model).contains(&all[0]));
    // What is shown whole is meant alone.
    typed(&mut model, "nG\rR");
    assert_eq!(names(&model), [all[2].clone()]);
    typed(&mut model, "nq1/mail\ra");
    assert!(model.place().marks.len() > 4);
    typed(&mut model, "/\x15video\r");
    assert!(model.place().marks.is_empty(), "they are filtered out");
}

#[test]
fn read_only_screen_has_no_orders() {
    let mut model = screen((80, 24));
    model.read_only = true;
    let orders: Vec<char> =
        actions().iter().filter(|action| action.changes).map(|action| action.key).collect();
    // A capital letter or a sign, so that nobody gives an order by a slip.
    assert!(orders.len() > 7 && orders.iter().all(|key| key.is_uppercase() || "+-".contains(*key)));
    for key in orders {
        assert!(typed(&mut model, &format!("j{key}Y")).is_empty());
        assert!(matches!(model.line, Line::Keys));
    }
    typed(&mut model, "C");
    assert!(draw(&model).text(23).starts_with("this screen only looks"));
}

#[test]
fn selection_stays_with_its_thing_when_lines_move() {
    let mut model = screen((80, 24));
    typed(&mut model, "t");
    let flat: Vec<String> = model.table.rows.iter().map(|row| row.thing.name()).collect();
    assert_eq!(flat, ["mail.1", "mail.2", "mail.3", "mail.4", "mail.5", "video.1"]);
    typed(&mut model, "jj");
    assert_eq!(model.selected(), Some(&Thing::Slot("mail.3".into())));
    // By age: the longest running first.
    typed(&mut model, "ooo");
    assert_eq!(model.selected(), Some(&Thing::Slot("mail.3".into())));
    assert_eq!((model.place().line, model.table.rows[0].thing.name().as_str()), (1, "mail.4"));
    typed(&mut model, "/video\r");
    assert_eq!((model.table.rows.len(), model.table.all), (1, 6));
    assert_eq!(model.selected(), Some(&Thing::Slot("video.1".into())));
}

#[test]
fn short_list_after_a_long_one_begins_at_its_first_line() {
    let mut model = screen((80, 24));
    let job = |n: u32| {
        JobRecord::new(
            format!("{n:04}").as_str().into(),
            "mail".into(),
            "mail.Send".into(),
            JobState::Waiting,
        )
    };
    typed(&mut model, "3");
    model.hear(seen(Some(usual()), List::Jobs((0..50).map(job).collect())));
    typed(&mut model, "G");
    assert!(!text(&draw(&model)).contains("0001"));
    model.hear(seen(Some(usual()), List::Jobs((0..3).map(job).collect())));
    let shown = text(&draw(&model));
    assert!(["0000", "0001", "0002"].iter().all(|id| shown.contains(id)), "{shown}");
}

#[test]
fn filter_of_jobs_is_asked_of_the_store() {
    let mut model = screen((80, 24));
    typed(&mut model, "3");
    let effects = typed(&mut model, "/state:failed queue:mail 漢\r");
    assert_eq!(effects, [Effect::Look]);
    assert_eq!(model.want().search.as_deref(), Some("state:failed queue:mail 漢"));
    model.hear(seen(Some(usual()), jobs()));
    assert_eq!(model.table.rows.len(), 3, "those that came are those that were found");
    typed(&mut model, "1");
    assert_eq!(model.want().search, None);
}

#[test]
fn palette_finds_an_action_by_its_name() {
    let mut model = screen((80, 24));
    typed(&mut model, "j:cancel\r");
    assert!(matches!(&model.line, Line::Confirm(order) if order.act == Act::Cancel));
    typed(&mut model, "n:queues\r");
    assert_eq!(model.tab, Tab::Queues);
    typed(&mut model, ":no such thing\r");
    assert_eq!(model.line, Line::Keys);
}

#[test]
fn orders_of_others_are_told_and_own_ones_only_once() {
    let mut model = screen((80, 24));
    let paused = PublishedEvent {
        queue: Some("mail".into()),
        by: Some("uid 0".into()),
        ..PublishedEvent::new(What::Paused, Millis(NOW))
    };
    model.hear(News::Happened(vec![PublishedEvent::new(What::Put, Millis(NOW)), paused.clone()]));
    let told = draw(&model).text(23);
    assert!(told.ends_with("paused queue mail  by uid 0"), "{told}");
    typed(&mut model, "2PY");
    model.hear(News::Happened(vec![paused]));
    let told = draw(&model).text(23);
    assert!(told.starts_with("being done  ? keys"), "{told}");
}

#[test]
fn unreached_supervisor_is_said_and_what_was_seen_stays() {
    let mut model = screen((80, 24));
    model.hear(News::Unseen("no supervisor listens on /run/x".into()));
    let shown = draw(&model);
    assert!(
        shown.text(0).starts_with(" not reached  no supervisor listens on /run/x; tried again"),
        "{}",
        shown.text(0)
    );
    assert!(text(&shown).contains("mail.1#7"));
    model.hear(seen(Some(usual()), List::None));
    assert!(draw(&model).text(0).starts_with(" degraded"));
    model.hear(seen(None, List::None));
    assert!(text(&draw(&model)).contains("no supervisor runs: this is what the store knows"));
}
