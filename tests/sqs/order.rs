//! The order of queues under a backlog in all of them.

use std::fs;
use std::time::Duration;

use crate::jobs::Scene;
use crate::sandbox::{Running, wait_until, wait_within};

const QUEUES: [&str; 3] = ["high", "mid", "low"];

/// A scene whose queues have so many messages each.
fn backlog(each: usize) -> Scene {
    let scene = Scene::new();
    for queue in QUEUES {
        let body = scene.shell(&format!("echo {queue} >>out"));
        scene.fake.put(queue, std::iter::repeat_n(body, each));
    }
    scene
}

/// A settings file whose pool takes from the queues in this order of theirs.
fn pool(order: &str, workers: usize) -> String {
    format!(
        "pools:\n  - name: p\n    workers: {workers}\n    queues: [low, mid, high]\n    order: {order}\n    \
         queue_priorities: {{high: 100, mid: 40, low: 5}}\n"
    )
}

impl Scene {
    /// Starts a pool that takes from the queues in this order of theirs.
    fn start_ordered(&self, order: &str, workers: usize) -> Running<'_> {
        self.start_pool(&pool(order, workers))
    }

    fn start_pool(&self, pool: &str) -> Running<'_> {
        fs::write(self.sandbox.work("t.yaml"), pool).unwrap();
        self.start(&["-c", "t.yaml"])
    }

    /// How many of the first starts were from each queue.
    fn shares(&self, starts: usize) -> [usize; 3] {
        wait_within(Duration::from_secs(120), "so many have run", || {
            self.said("out").lines().count() >= starts
        });
        let said = self.said("out");
        QUEUES.map(|queue| said.lines().take(starts).filter(|line| *line == queue).count())
    }
}

#[test]
fn first_queue_gives_all_jobs_while_it_has_a_backlog() {
    for (order, workers) in [("strict_priority", 4), ("strict_priority", 1), ("highest_priority_first", 4)] {
        let scene = backlog(120);
        let _running = scene.start_ordered(order, workers);
        let [high, mid, low] = scene.shares(100);
        assert!(high >= 90, "{order} with {workers}: {high} {mid} {low}");
    }
}

/// Forty draws of ten jobs: the bounds are four standard deviations away.
#[test]
fn lottery_shares_follow_the_priorities() {
    let scene = backlog(420);
    let _running = scene.start_ordered("reduced_lottery", 4);
    let [high, mid, low] = scene.shares(400);
    assert!((160..=395).contains(&high) && mid >= 20 && low <= 90, "{high} {mid} {low}");
}

/// Each drawn queue gives its whole turn: the starts change queues as seldom as that.
#[test]
fn drawn_queue_gives_its_whole_turn() {
    let scene = backlog(120);
    let more = "    queue_turns: {high: 40, mid: 40, low: 40}\n";
    let _running = scene.start_pool(&[&pool("random", 1), more].concat());
    scene.shares(240);
    let said = scene.said("out");
    let starts: Vec<&str> = said.lines().take(240).collect();
    let changes = starts.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes <= 8, "{changes} changes: {starts:?}");
}

#[test]
fn queues_in_turn_give_equal_shares() {
    let scene = backlog(60);
    let _running = scene.start_ordered("round_robin", 4);
    let shares = scene.shares(90);
    assert!(shares.iter().all(|share| (20..=40).contains(share)), "{shares:?}");
}

#[test]
fn message_of_an_empty_queue_overtakes_the_backlog_behind_it() {
    let scene = Scene::new();
    scene.fake.put("high", []);
    scene.fake.put("low", std::iter::repeat_n(scene.shell("echo low >>out; sleep 0.05"), 300));
    let _running = scene.start(&["-w", "2", "-q", "high", "-q", "low"]);
    wait_until("the backlog runs", || !scene.said("out").is_empty());
    scene.send_shell("high", "echo high >>out");
    wait_within(Duration::from_secs(60), "the message ran", || scene.said("out").contains("high"));
    let before = scene.said("out").lines().take_while(|line| *line == "low").count();
    assert!(before < 200, "{before} of 300 ran before it");
}

/// Its messages have waited for an hour, and those of the first queue for seconds: 5 times an hour is more than 100 times
/// a minute. The queues are counted every 5 s, which is 50 jobs at most.
#[test]
fn queue_whose_messages_are_old_overtakes_one_of_higher_priority() {
    let scene = Scene::new();
    let busy = |queue: &str| scene.shell(&format!("echo {queue} >>out; sleep 0.1"));
    scene.fake.put("high", []);
    scene.fake.put("mid", []);
    scene.fake.put("low", [scene.shell("echo first >>out; while [ ! -e go ]; do sleep 0.02; done")]);
    scene.fake.put("low", std::iter::repeat_n(busy("low"), 120));
    scene.fake.age("low", Duration::from_secs(3600));
    let _running = scene.start_ordered("priority_aging", 1);
    wait_until("a message of the old queue runs", || !scene.said("out").is_empty());
    scene.fake.put("high", std::iter::repeat_n(busy("high"), 120));
    fs::write(scene.sandbox.work("go"), "").unwrap();
    scene.shares(110);
    let said = scene.said("out");
    let late: Vec<&str> = said.lines().skip(70).take(40).collect();
    let low = late.iter().filter(|line| **line == "low").count();
    assert!(low >= 36, "{low} of {}: {said}", late.len());
}
