//! When a job is due: intervals, the wall clock, what was missed, who puts it.

use super::*;

contract!(
    needs [Recur];
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
    a_wall_clock_that_is_set_back_runs_nothing_twice,
    a_wall_clock_that_was_far_ahead_is_forgotten,
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

/// In a Redis all goes by the clock of the server.
#[tokio::test]
async fn setting_the_wall_clock_moves_no_interval() {
    for mut scene in [Scene::memory(), Scene::file()] {
        scene.recur(every(10 * MINUTE)).await;
        scene.set_wall_clock(-24 * 365);
        scene.clock.forward(10 * MINUTE);
        assert_eq!(scene.done().await, ["n-1"]);
        scene.set_wall_clock(48 * 365);
        assert_eq!(scene.done().await, Vec::<String>::new());
        scene.clock.forward(10 * MINUTE);
        assert_eq!(scene.done().await, ["n-2"]);
    }
}

async fn a_wall_clock_that_is_set_back_runs_nothing_twice(mut scene: Scene) {
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
    two_put_each_job_once(Scene::file()).await;
}

#[tokio::test]
async fn two_hosts_on_a_redis_put_each_job_once() {
    two_put_each_job_once(Scene::redis()).await;
}

async fn two_put_each_job_once(scene: Scene) {
    let other = scene.another();
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
async fn a_short_lived_client_puts_no_due_job() {
    let mut scene = Scene::file();
    // Nobody who serves is there to be woken by the passer.
    scene.store = None;
    let path = scene.file_of_it();
    let options = Options { serves: false, world: scene.world(), ..Options::default() };
    let passer = Broker::from(Sqlite::open(path, options).unwrap());
    passer.tell(every(MINUTE), "uid 7").await.unwrap();
    scene.clock.forward(MINUTE);
    assert!(passer.fetch(request(&["q"], 1)).await.unwrap().is_empty());
    scene.store = Some(scene.another());
    assert_eq!(scene.done().await, ["n-1"]);
}

#[tokio::test]
async fn one_that_another_process_puts_is_seen_to() {
    let scene = Scene::file();
    scene.another().tell(every(MINUTE), "uid 7").await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
}

#[tokio::test]
async fn one_that_cannot_be_read_holds_up_nothing() {
    let scene = Scene::file();
    for name in ["a", "b", "c"] {
        scene.recur(Recurring { name: name.into(), ..every(2 * MINUTE) }).await;
    }
    let shell = rusqlite::Connection::open(scene.file_of_it()).unwrap();
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
async fn a_due_job_wakes_those_who_wait() {
    let store = Broker::from(Sqlite::memory().unwrap());
    store.tell(every(Duration::from_secs(1)), "uid 7").await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(40), store.next_notice()).await;
    assert_eq!(woken, Ok(Notice::Wake));
    assert_eq!(ids(&store.fetch(request(&["q"], 1)).await.unwrap()), ["n-1"]);
}
