//! Tests of folding, over whole trees.

use std::time::Duration;

use crate::cli::status::tree::render;
use crate::cli::status::tree::tests::healthy;
use crate::cli::term::screen::Look;
use model::{Millis, Process, SlotName, Status};

fn crowded() -> Status {
    let mut status = healthy();
    let slots = &mut status.pools[0].slots;
    let idle = slots[1].clone();
    slots.extend((3..=150).map(|n| {
        let mut slot = idle.clone();
        slot.slot = SlotName::new("default", n);
        slot
    }));
    let child = |pid: i32, name: &str, children: Vec<Process>| Process {
        pid,
        name: name.into(),
        state: "S".into(),
        rss: 1 << 20,
        cpu: Duration::from_millis(10),
        children,
        cut: false,
    };
    let mut children: Vec<Process> = (1..=150).map(|n| child(1000 + n, "sleep", vec![])).collect();
    children.insert(7, child(2000, "cat", vec![]));
    children.extend((1..=4).map(|n| child(3000 + n, "sh", vec![child(4000 + n, "wc\x1b", vec![])])));
    slots[0].process.as_mut().unwrap().children = children;
    status
}

#[test]
fn equal_idle_slots_and_equal_children_share_a_line() {
    let text = render(&crowded(), Millis(1_790_000_060_000), &Look::piped(140));
    assert!(text.contains("sleep ×150  rss 150M  cpu 1.5s\n"), "{text}");
    assert!(text.contains("cat(2000) S  rss 1.0M"), "{text}");
    assert!(text.contains("sh ×4  rss 8.0M  cpu 80ms  each with wc\\x1b\n"), "{text}");
    assert!(text.contains("slots ×149 ready  rss 43.7M"), "{text}");
    assert!(text.contains("default.1#7 busy") && text.lines().count() < 20, "{text}");
    let ascii = render(&crowded(), Millis(1_790_000_060_000), &Look { ascii: true, ..Look::piped(140) });
    assert!(ascii.is_ascii() && ascii.contains("sleep x150"), "{ascii}");
}

#[test]
fn all_is_shown_where_that_is_asked_for() {
    let text = render(&crowded(), Millis(1_790_000_060_000), &Look { all: true, ..Look::piped(140) });
    assert!(text.contains("sleep(1150) S") && text.contains("default.150#7 ready"), "{text}");
}

#[test]
fn slot_that_has_something_to_tell_has_its_own_line() {
    let mut status = crowded();
    let slots = &mut status.pools[0].slots;
    slots[9].restarts = 1;
    slots[10].process.as_mut().unwrap().state = "T".into();
    slots[11].process.as_mut().unwrap().state = "D".into();
    let text = render(&status, Millis(1_790_000_060_000), &Look::piped(140));
    assert!(text.contains("default.10#7 ready") && text.contains("restarts 1"), "{text}");
    let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap().to_owned();
    assert!(line("default.11#7").ends_with("  stopped"), "{text}");
    assert!(line("default.12#7").ends_with("  waits for the disk"), "{text}");
    assert!(text.contains("slots ×146 ready"), "{text}");
}
