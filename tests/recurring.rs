//! What every broker does with recurring jobs, case by case, in a world whose clocks a test sets.
#![allow(clippy::unwrap_used)]

#[macro_use]
#[path = "support/store.rs"]
mod support;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use support::*;
use taskvisor::broker::sqlite::{Options, World};
use taskvisor::broker::{Broker, Error, Notice, Sqlite, Verbs};
use taskvisor::model::verb::{ListRecurring, RemoveRecurring, RunRecurring, ShowRecurring};
use taskvisor::model::*;

/// Wednesday, 14 January 2026, 10:17:30 UTC: when a wall clock here begins.
const START: i64 = 1_768_385_850_000;
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// A store with a clock, and a wall clock that goes with it until it is set.
struct Scene {
    clock: Clock,
    set_by: Arc<AtomicI64>,
    directory: Option<tempfile::TempDir>,
    store: Option<Sqlite>,
}

impl Scene {
    fn memory() -> Self {
        let mut scene =
            Scene { clock: Clock::default(), set_by: Arc::default(), directory: None, store: None };
        scene.store = Some(Sqlite::memory_in(scene.world()).unwrap());
        scene
    }

    fn file() -> Self {
        let directory = Some(tempfile::tempdir().unwrap());
        let mut scene = Scene { clock: Clock::default(), set_by: Arc::default(), directory, store: None };
        scene.store = scene.another();
        scene
    }

    fn world(&self) -> World {
        let world = self.clock.world();
        let (now, set_by) = (world.now.clone(), self.set_by.clone());
        let wall = move || {
            START - 1_000_000 + i64::try_from(now().as_millis()).unwrap() + set_by.load(Ordering::SeqCst)
        };
        World { wall_millis: Arc::new(wall), ..world }
    }

    /// Another opening of the same file.
    fn another(&self) -> Option<Sqlite> {
        let path = self.directory.as_ref()?.path().join("store.db");
        Some(Sqlite::open(path, Options { world: self.world(), ..Options::default() }).unwrap())
    }

    /// Nobody serves the store for so long.
    fn closed_for(&mut self, time: Duration) {
        if self.directory.is_some() {
            self.store = None;
            self.clock.forward(time);
            self.store = self.another();
        } else {
            self.clock.forward(time);
        }
    }

    fn set_wall_clock(&self, by_hours: i64) {
        self.set_by.fetch_add(by_hours * 3_600_000, Ordering::SeqCst);
    }

    async fn recur(&self, recurring: Recurring) -> RecurringRecord {
        self.tell(recurring, "uid 7").await.unwrap()
    }

    async fn known(&self, name: &str) -> RecurringRecord {
        self.tell(ShowRecurring { name: name.into() }, "").await.unwrap()
    }

    /// The ids of what can be taken now.
    async fn taken(&self) -> Vec<Fetched> {
        self.fetch(request(&["q"], 50)).await.unwrap()
    }

    async fn taken_ids(&self) -> Vec<String> {
        ids(&self.taken().await).into_iter().map(String::from).collect()
    }

    /// Takes what is there and completes it; gives the ids.
    async fn done(&self) -> Vec<String> {
        let taken = self.taken().await;
        let settlements = taken.iter().map(|one| settlement(&one.lease, complete())).collect();
        self.settle(settlements).await.unwrap();
        ids(&taken).into_iter().map(String::from).collect()
    }

    async fn record(&self, id: &str) -> JobRecord {
        self.get(id.into()).await.unwrap().unwrap()
    }
}

impl std::ops::Deref for Scene {
    type Target = Sqlite;

    fn deref(&self) -> &Sqlite {
        self.store.as_ref().unwrap()
    }
}

fn recurring(schedule: Schedule) -> Recurring {
    let job = NewJob { id: None, ..job("") };
    let (overlap, catch_up) = (Overlap::Skip, Duration::ZERO);
    Recurring { name: "n".into(), schedule, overlap, catch_up, backlog: 1, job }
}

fn every(interval: Duration) -> Recurring {
    recurring(Schedule::Every { interval, offset: interval })
}

fn cron(line: &str, zone: &str) -> Recurring {
    recurring(Schedule::Cron { line: line.parse().unwrap(), zone: zone.into() })
}

fn allow(recurring: Recurring) -> Recurring {
    Recurring { overlap: Overlap::Allow, ..recurring }
}

contract!(
    an_interval_puts_its_jobs_as_of_their_time,
    the_first_time_is_as_the_offset_says,
    a_line_is_due_by_the_wall_clock_of_its_zone,
    a_time_is_skipped_while_the_latest_job_has_not_ended,
    a_held_job_is_in_nobodys_way,
    one_more_is_put_where_that_is_allowed,
    what_a_minute_is_late_is_not_missed,
    what_was_missed_is_not_made_up,
    what_was_missed_within_the_window_is_made_up,
    of_many_that_were_missed_the_latest_are_made_up,
    setting_the_wall_clock_moves_no_interval,
    a_wall_clock_that_is_set_back_runs_nothing_twice,
    a_wall_clock_that_was_far_ahead_is_forgotten,
    put_again_it_keeps_its_number_and_its_time,
    put_again_with_another_schedule_it_is_due_by_that,
    removed_it_puts_no_more_and_no_number_is_used_twice,
    ids_that_are_taken_are_passed_over,
    jobs_for_a_paused_queue_wait,
    all_that_a_job_brings_is_put,
    it_can_be_run_at_once,
    they_are_listed_by_name_and_their_jobs_by_theirs,
    what_cannot_be_is_refused_and_changes_nothing,
    an_unknown_zone_is_refused_with_a_name_that_is_near,
    many_are_due_at_a_time,
);

async fn an_interval_puts_its_jobs_as_of_their_time(scene: Scene) {
    let put = scene.recur(every(10 * MINUTE)).await;
    let first = put.next_at.unwrap().0;
    assert_eq!(first, START + 600_000);
    scene.clock.forward(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(scene.taken().await, []);
    // The look is late, the time is that of the schedule, and so is the next one.
    scene.clock.forward(Duration::from_millis(1_501));
    assert_eq!(scene.done().await, ["n-1"]);
    let job = scene.record("n-1").await;
    assert_eq!((job.put_at, job.recurring.as_deref()), (Millis(first), Some("n")));
    assert_eq!(job.put_by.as_deref(), Some("recurring n"));
    assert_eq!(scene.known("n").await.next_at, Some(Millis(first + 600_000)));
    scene.clock.forward(9 * MINUTE + Duration::from_millis(58_500));
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn the_first_time_is_as_the_offset_says(scene: Scene) {
    scene.recur(recurring(Schedule::Every { interval: HOUR, offset: Duration::ZERO })).await;
    assert_eq!(scene.done().await, ["n-1"], "at once");
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn a_line_is_due_by_the_wall_clock_of_its_zone(scene: Scene) {
    let put = scene.recur(cron("30 12 * * *", "Europe/Vienna")).await;
    let due = START + 750_000 + 3_600_000;
    assert_eq!(put.next_at, Some(Millis(due)), "12:30 there is 11:30 UTC");
    let days: Vec<Millis> = (1..=4).map(|n| Millis(due + n * 86_400_000)).collect();
    assert_eq!(put.then_at, days);
    scene.clock.forward(HOUR + Duration::from_secs(749));
    assert_eq!(scene.taken().await, []);
    scene.clock.forward(Duration::from_secs(1));
    assert_eq!(scene.done().await, ["n-1"]);
    assert_eq!(scene.record("n-1").await.put_at, Millis(due));
    scene.clock.forward(DAY);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn a_time_is_skipped_while_the_latest_job_has_not_ended(scene: Scene) {
    scene.recur(every(MINUTE)).await;
    scene.clock.forward(MINUTE);
    let first = scene.taken().await.remove(0);
    scene.clock.forward(MINUTE / 2);
    scene.renew(vec![first.lease.clone()], HOUR).await.unwrap();
    for _ in 0..2 {
        scene.clock.forward(MINUTE);
        assert_eq!(scene.taken().await, []);
    }
    let known = scene.known("n").await;
    assert_eq!((known.count, known.skipped, known.missed_at), (1, 2, None));
    let latest = known.latest.unwrap();
    assert_eq!((latest.id.as_str(), latest.state), ("n-1", JobState::Running));
    scene.settle(vec![settlement(&first.lease, retry_after(2 * MINUTE))]).await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.taken().await, [], "it waits for its retry");
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
    assert_eq!(scene.known("n").await.skipped, 4);
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn a_held_job_is_in_nobodys_way(scene: Scene) {
    scene.recur(every(MINUTE)).await;
    scene.clock.forward(MINUTE);
    let first = scene.taken().await.remove(0);
    let hold = Verdict::Hold { failure: failure() };
    scene.settle(vec![settlement(&first.lease, hold)]).await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn one_more_is_put_where_that_is_allowed(scene: Scene) {
    scene.recur(allow(every(MINUTE))).await;
    scene.clock.forward(MINUTE);
    assert_eq!(scene.taken_ids().await, ["n-1"]);
    scene.clock.forward(MINUTE / 2);
    assert_eq!(scene.taken().await, []);
    scene.clock.forward(MINUTE / 2 - Duration::from_millis(1));
    assert_eq!(scene.taken().await, []);
    scene.clock.forward(Duration::from_millis(1));
    assert!(scene.taken_ids().await.contains(&"n-2".to_owned()));
    assert_eq!(scene.known("n").await.skipped, 0);
}

async fn what_a_minute_is_late_is_not_missed(mut scene: Scene) {
    scene.recur(cron("30 10 * * *", "UTC")).await;
    scene.closed_for(Duration::from_secs(750 + 60));
    assert_eq!(scene.done().await, ["n-1"]);
    scene.closed_for(DAY + Duration::from_millis(1));
    assert_eq!(scene.done().await, Vec::<String>::new());
    let known = scene.known("n").await;
    assert_eq!(known.missed_at, Some(Millis(START + 750_000 + 86_400_000)));
}

async fn what_was_missed_is_not_made_up(mut scene: Scene) {
    scene.recur(allow(every(10 * MINUTE))).await;
    scene.closed_for(10 * DAY + 5 * MINUTE);
    assert_eq!(scene.taken().await, []);
    let known = scene.known("n").await;
    assert_eq!((known.count, known.skipped), (0, 0));
    assert_eq!(known.missed_at, Some(Millis(START + 864_000_000)), "the last of them is told");
    scene.clock.forward(5 * MINUTE);
    assert_eq!(scene.done().await, ["n-1"], "it goes on in its own rhythm");
}

async fn what_was_missed_within_the_window_is_made_up(mut scene: Scene) {
    scene.recur(Recurring { catch_up: 9 * HOUR, ..cron("30 2 * * *", "UTC") }).await;
    // To 11:17:30, nine hours less 12 minutes late.
    scene.closed_for(DAY + HOUR);
    assert_eq!(scene.done().await, ["n-1"]);
    let night = START - (7 * 3600 + 47 * 60 + 30) * 1000 + 86_400_000;
    assert_eq!(scene.record("n-1").await.put_at, Millis(night));
    scene.closed_for(2 * DAY + HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new(), "at 12:17:30 it is too late");
    assert_eq!(scene.known("n").await.missed_at, Some(Millis(night + 2 * 86_400_000)));
}

async fn of_many_that_were_missed_the_latest_are_made_up(mut scene: Scene) {
    let backlog = |overlap, backlog| Recurring { catch_up: DAY, backlog, overlap, ..every(HOUR) };
    scene.recur(backlog(Overlap::Allow, 3)).await;
    scene.recur(Recurring { name: "one".into(), ..backlog(Overlap::Skip, 3) }).await;
    scene.closed_for(5 * HOUR + MINUTE / 2);
    assert_eq!(scene.done().await, ["n-1", "n-2", "n-3", "one-1"]);
    let puts = [3, 4, 5].map(|n| Millis(START + n * 3_600_000));
    for (id, at) in ["n-1", "n-2", "n-3"].into_iter().zip(puts) {
        assert_eq!(scene.record(id).await.put_at, at);
    }
    assert_eq!(scene.record("one-1").await.put_at, puts[2], "only one is to be there at a time");
    assert_eq!(scene.known("n").await.missed_at, Some(Millis(START + 2 * 3_600_000)));
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-4", "one-2"]);
}

async fn setting_the_wall_clock_moves_no_interval(scene: Scene) {
    scene.recur(every(10 * MINUTE)).await;
    scene.set_wall_clock(-24 * 365);
    scene.clock.forward(10 * MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
    scene.set_wall_clock(48 * 365);
    assert_eq!(scene.done().await, Vec::<String>::new());
    scene.clock.forward(10 * MINUTE);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn a_wall_clock_that_is_set_back_runs_nothing_twice(scene: Scene) {
    scene.recur(cron("0 11 * * *", "UTC")).await;
    scene.clock.forward(Duration::from_secs(2_550));
    assert_eq!(scene.done().await, ["n-1"]);
    scene.set_wall_clock(-2);
    scene.clock.forward(3 * HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new(), "11:00 comes again");
    scene.clock.forward(23 * HOUR);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn a_wall_clock_that_was_far_ahead_is_forgotten(mut scene: Scene) {
    scene.recur(cron("0 12 * * *", "UTC")).await;
    scene.set_wall_clock(24 * 365);
    scene.clock.forward(2 * MINUTE);
    assert_eq!(scene.done().await, Vec::<String>::new(), "what was jumped over is missed");
    assert!(scene.known("n").await.next_at.unwrap().0 > START + 300 * 86_400_000);
    scene.set_wall_clock(-24 * 365);
    // Noticed by the next look, and by the next start.
    scene.closed_for(2 * MINUTE);
    assert_eq!(scene.done().await, Vec::<String>::new());
    assert_eq!(scene.known("n").await.next_at, Some(Millis(START + 6_150_000)));
    scene.clock.forward(99 * MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
}

async fn put_again_it_keeps_its_number_and_its_time(scene: Scene) {
    scene.recur(every(HOUR)).await;
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-1"]);
    scene.clock.forward(HOUR / 2);
    let changed = NewJob { id: None, priority: 9, ..job("") };
    let again = scene.recur(Recurring { job: changed, ..every(HOUR) }).await;
    assert_eq!((again.count, again.next_at), (1, Some(Millis(START + 7_200_000))));
    assert_eq!((again.put_by.as_str(), again.put_at), ("uid 7", Millis(START + 5_400_000)));
    scene.clock.forward(HOUR / 2);
    let taken = scene.taken().await;
    assert_eq!((ids(&taken), taken[0].job.priority), (vec!["n-2"], 9));
}

async fn put_again_with_another_schedule_it_is_due_by_that(scene: Scene) {
    scene.recur(every(HOUR)).await;
    let again = scene.recur(every(10 * MINUTE)).await;
    assert_eq!(again.next_at, Some(Millis(START + 600_000)));
    let again = scene.recur(cron("@hourly", "UTC")).await;
    assert_eq!(again.next_at, Some(Millis(START + 2_550_000)));
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new(), "at 11:17:30 it is late");
    scene.clock.forward(43 * MINUTE);
    assert_eq!(scene.done().await, ["n-1"], "a quarter of a minute late is not missed");
}

async fn removed_it_puts_no_more_and_no_number_is_used_twice(scene: Scene) {
    scene.recur(every(HOUR)).await;
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-1"]);
    scene.tell(RemoveRecurring { name: "n".into() }, "uid 7").await.unwrap();
    scene.clock.forward(2 * HOUR);
    assert_eq!(scene.taken().await, []);
    assert_eq!(scene.tell(ListRecurring {}, "").await.unwrap(), []);
    let gone = Error::NoRecurring("n".into());
    assert_eq!(scene.tell(ShowRecurring { name: "n".into() }, "").await, Err(gone.clone()));
    assert_eq!(scene.tell(RemoveRecurring { name: "n".into() }, "").await, Err(gone.clone()));
    assert_eq!(scene.tell(RunRecurring { name: "n".into() }, "").await, Err(gone));
    assert_eq!(scene.record("n-1").await.recurring.as_deref(), Some("n"), "its jobs stay");
    let again = scene.recur(every(HOUR)).await;
    assert_eq!((again.count, again.missed_at), (1, None));
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn ids_that_are_taken_are_passed_over(scene: Scene) {
    scene.enqueue(vec![job("n-1"), job("n-2"), job("n-4")]).await.unwrap();
    assert_eq!(scene.done().await, ["n-1", "n-2", "n-4"]);
    scene.recur(every(MINUTE)).await;
    for id in ["n-3", "n-5"] {
        scene.clock.forward(MINUTE);
        assert_eq!(scene.done().await, [id]);
    }
    assert_eq!(scene.record("n-4").await.recurring, None);
}

async fn jobs_for_a_paused_queue_wait(scene: Scene) {
    scene.recur(every(MINUTE)).await;
    scene.pause("q".into(), "uid 7".into(), None).await.unwrap();
    scene.clock.forward(2 * MINUTE);
    assert_eq!(scene.taken().await, []);
    scene.clock.forward(MINUTE);
    assert_eq!(scene.taken().await, []);
    scene.resume("q".into()).await.unwrap();
    assert_eq!(scene.done().await, ["n-1"], "one of them: the others found it waiting");
}

async fn all_that_a_job_brings_is_put(scene: Scene) {
    let exec = Exec { argv: vec!["true".into()], cwd: "/".into(), umask: 0o22, stdin: "x".into() };
    let retry = Some(Retry { retries: 2, ..Retry::CLASS });
    let brought = NewJob {
        id: None,
        class: Class::EXEC.into(),
        payload: Payload::Exec(exec.clone()),
        priority: -7,
        tags: vec!["a".into(), "b".into()],
        retry,
        time_limit: Some(MINUTE),
        ..job("")
    };
    scene.recur(Recurring { job: brought, ..every(MINUTE) }).await;
    scene.clock.forward(MINUTE);
    let taken = scene.taken().await.remove(0).job;
    assert_eq!((&taken.payload, taken.priority, taken.tags.len()), (&Payload::Exec(exec), -7, 2));
    assert_eq!((taken.retry, taken.time_limit, taken.class.as_str()), (retry, Some(MINUTE), "exec"));
}

async fn it_can_be_run_at_once(scene: Scene) {
    scene.recur(every(HOUR)).await;
    scene.clock.forward(MINUTE);
    let run = || scene.tell(RunRecurring { name: "n".into() }, "uid 9");
    let (one, two) = (run().await.unwrap(), run().await.unwrap());
    assert_eq!((one.id.as_str(), one.state, one.at), ("n-1", JobState::Waiting, Millis(START + 60_000)));
    assert_eq!(two.id.as_str(), "n-2", "whatever became of the other one");
    assert_eq!(scene.record("n-1").await.put_by.as_deref(), Some("uid 9, recurring n"));
    assert_eq!(scene.known("n").await.next_at, Some(Millis(START + 3_600_000)));
    assert_eq!(scene.done().await, ["n-1", "n-2"]);
}

async fn they_are_listed_by_name_and_their_jobs_by_theirs(scene: Scene) {
    for name in ["b", "a", "B"] {
        scene.recur(Recurring { name: name.into(), ..every(MINUTE) }).await;
    }
    let all = scene.tell(ListRecurring {}, "").await.unwrap();
    let names: Vec<&str> = all.iter().map(|one| one.recurring.name.as_str()).collect();
    assert_eq!(names, ["B", "a", "b"]);
    scene.enqueue(vec![job("other")]).await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await.len(), 4);
    let of = |name: &str| Filter { recurring: Some(name.into()), ..Filter::default() };
    let jobs = scene.list(of("a")).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a-1"]);
    assert_eq!(scene.list(of("x")).await, Err(Error::NoRecurring("x".into())));
    scene.tell(RemoveRecurring { name: "a".into() }, "").await.unwrap();
    assert_eq!(scene.list(of("a")).await.unwrap(), jobs, "its jobs stay");
}

async fn what_cannot_be_is_refused_and_changes_nothing(scene: Scene) {
    scene.recur(every(HOUR)).await;
    let named = |name: &str| Recurring { name: name.into(), ..every(HOUR) };
    let carrying = |job: NewJob| Recurring { job, ..every(HOUR) };
    let large = Payload::Data("x".repeat(60_000).as_str().into());
    let cases = [
        (every(Duration::ZERO), "an interval of 0s is too short: 1s is the shortest"),
        (every(Duration::from_millis(999)), "1s is the shortest"),
        (every(Duration::MAX), "3660d is the longest"),
        (named(""), "1 to 100 visible ASCII characters"),
        (named("a b"), "visible ASCII"),
        (named("a\u{1b}[2Jb"), "visible ASCII"),
        (named("ä"), "visible ASCII"),
        (named(&"x".repeat(101)), "1 to 100"),
        (Recurring { catch_up: 32 * DAY, ..every(HOUR) }, "31d is the longest"),
        (Recurring { backlog: 0, ..every(HOUR) }, "1 to 1000 jobs"),
        (Recurring { backlog: 1001, ..every(HOUR) }, "1 to 1000 jobs"),
        (carrying(job("x")), "ids made of its name"),
        (carrying(NewJob { id: None, delay: MINUTE, ..job("") }), "no delay but its schedule"),
        (carrying(NewJob { id: None, payload: large, ..job("") }), "longer than 48 KiB"),
    ];
    for (wrong, why) in cases {
        let refused = scene.tell(wrong.clone(), "uid 7").await;
        let Err(Error::Refused(said)) = refused else { panic!("{wrong:?}: {refused:?}") };
        assert!(said.starts_with("cannot put the recurring job '") && said.contains(why), "{said}");
        assert!(said.len() < 300, "{said}");
    }
    let all = scene.tell(ListRecurring {}, "").await.unwrap();
    assert_eq!((all.len(), &all[0].recurring), (1, &every(HOUR)));
    let longest = "x".repeat(100);
    scene.recur(named(&longest)).await;
    let run = scene.tell(RunRecurring { name: longest }, "uid 7").await.unwrap();
    assert!(run.id.as_str().ends_with("x-1"));
}

async fn an_unknown_zone_is_refused_with_a_name_that_is_near(scene: Scene) {
    let refused = scene.tell(cron("@daily", "Europe/Wien"), "uid 7").await.unwrap_err().to_string();
    assert_eq!(
        refused,
        "cannot put the recurring job 'n': no time zone is called 'Europe/Wien'; names are like Europe/Vienna, \
         America/New_York or UTC"
    );
    let refused = scene.tell(cron("@daily", "Vienna"), "uid 7").await.unwrap_err().to_string();
    assert!(refused.ends_with("no time zone is called 'Vienna'; did you mean Europe/Vienna?"), "{refused}");
    for zone in ["", "../../etc/passwd", "/etc/localtime", "a\0b"] {
        assert!(scene.tell(cron("@daily", zone), "uid 7").await.is_err(), "{zone}");
    }
}

async fn many_are_due_at_a_time(scene: Scene) {
    for n in 0..300 {
        scene.recur(Recurring { name: format!("n{n}"), ..every(HOUR) }).await;
    }
    scene.clock.forward(HOUR);
    let mut taken = 0;
    while taken < 300 {
        let some = scene.done().await.len();
        assert!(some > 0, "{taken} of them, and no more");
        taken += some;
    }
    assert_eq!(scene.taken().await, []);
}

#[tokio::test]
async fn two_who_hold_the_store_put_each_job_once() {
    let scene = Scene::file();
    let other = scene.another().unwrap();
    scene.recur(allow(every(MINUTE))).await;
    for n in 1..=20 {
        scene.clock.forward(MINUTE);
        let fetch = || request(&["q"], 3);
        let (ours, theirs) = tokio::join!(scene.fetch(fetch()), other.fetch(fetch()));
        let both = [ours.unwrap(), theirs.unwrap()].concat();
        assert_eq!(ids(&both), [format!("n-{n}")]);
        let done = both.iter().map(|one| settlement(&one.lease, complete())).collect();
        scene.settle(done).await.unwrap();
    }
}

#[tokio::test]
async fn who_only_passes_by_puts_nothing() {
    let mut scene = Scene::file();
    // Nobody who serves is there to be woken by the passer.
    scene.store = None;
    let path = scene.directory.as_ref().unwrap().path().join("store.db");
    let options = Options { serves: false, world: scene.world(), ..Options::default() };
    let passer = Sqlite::open(path, options).unwrap();
    passer.tell(every(MINUTE), "uid 7").await.unwrap();
    scene.clock.forward(MINUTE);
    assert!(passer.fetch(request(&["q"], 1)).await.unwrap().is_empty());
    scene.store = scene.another();
    assert_eq!(scene.done().await, ["n-1"]);
}

#[tokio::test]
async fn one_that_another_process_puts_is_seen_to() {
    let scene = Scene::file();
    scene.another().unwrap().tell(every(MINUTE), "uid 7").await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
}

#[tokio::test]
async fn one_that_cannot_be_read_holds_up_nothing() {
    let scene = Scene::file();
    for name in ["a", "b", "c"] {
        scene.recur(Recurring { name: name.into(), ..every(2 * MINUTE) }).await;
    }
    let file = scene.directory.as_ref().unwrap().path().join("store.db");
    let shell = rusqlite::Connection::open(file).unwrap();
    let spec: String =
        shell.query_row("SELECT spec FROM recurring WHERE name = 'b'", [], |row| row.get(0)).unwrap();
    shell.execute("UPDATE recurring SET spec = '{\"of\": \"tomorrow\"}' WHERE name = 'b'", []).unwrap();
    scene.clock.forward(2 * MINUTE);
    assert_eq!(scene.done().await, ["a-1", "c-1"]);
    shell.execute("UPDATE recurring SET spec = ?1 WHERE name = 'b'", [spec]).unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["b-1"], "it is tried again after a minute");
    shell.execute("UPDATE recurring SET spec = '' WHERE name = 'b'", []).unwrap();
    scene.tell(RemoveRecurring { name: "b".into() }, "uid 7").await.unwrap();
}

#[tokio::test]
async fn who_waits_is_woken_when_one_is_due() {
    let store = Sqlite::memory().unwrap();
    store.tell(every(Duration::from_secs(1)), "uid 7").await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(40), store.next_notice()).await;
    assert_eq!(woken, Ok(Notice::Wake));
    assert_eq!(ids(&store.fetch(request(&["q"], 1)).await.unwrap()), ["n-1"]);
}
