//! Times of recurring jobs: intervals, the wall clock, missed occurrences, and which process fires them.

use super::*;

contract!(
    needs [Recur];
    interval_occurrences_have_their_scheduled_time,
    offset_decides_the_first_occurrence_of_an_interval,
    cron_line_is_due_by_the_wall_clock_of_its_zone,
    occurrence_is_skipped_while_the_latest_job_has_not_ended,
    held_job_does_not_block_the_next_occurrence,
    overlap_allow_fires_while_the_latest_job_runs,
    occurrence_at_most_a_minute_late_is_fired,
    job_of_an_occurrence_that_is_fired_too_late_expires,
    job_that_no_worker_takes_in_time_does_not_keep_the_next_one_away,
    missed_occurrences_are_not_fired_by_default,
    missed_occurrences_within_catch_up_are_fired,
    catch_up_fires_the_latest_occurrences_of_the_backlog,
    wall_clock_set_back_fires_no_occurrence_twice,
    schedule_recovers_from_a_wall_clock_far_ahead,
    three_hundred_recurring_jobs_can_be_due_at_once,
);

async fn interval_occurrences_have_their_scheduled_time(scene: Scene) {
    let put = scene.recur(every(10 * MINUTE)).await;
    let first = put.next_at.unwrap().0;
    assert_eq!(first, START + 600_000);
    scene.clock.forward(10 * MINUTE - Duration::from_millis(1));
    assert_eq!(scene.taken().await, []);
    // The look is late, but this occurrence and the next have their scheduled times.
    scene.clock.forward(Duration::from_millis(1_501));
    assert_eq!(scene.done().await, ["n-1"]);
    let job = scene.record("n-1").await;
    assert_eq!((job.put_at, job.recurring.as_deref()), (Millis(first), Some("n")));
    assert_eq!(job.put_by.as_deref(), Some("recurring n"));
    assert_eq!(scene.known("n").await.next_at, Some(Millis(first + 600_000)));
    scene.clock.forward(9 * MINUTE + Duration::from_millis(58_500));
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn offset_decides_the_first_occurrence_of_an_interval(scene: Scene) {
    scene.recur(recurring(Schedule::Every { interval: HOUR, offset: Duration::ZERO })).await;
    assert_eq!(scene.done().await, ["n-1"], "at once");
    scene.clock.forward(HOUR);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn cron_line_is_due_by_the_wall_clock_of_its_zone(scene: Scene) {
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

async fn occurrence_is_skipped_while_the_latest_job_has_not_ended(scene: Scene) {
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

async fn held_job_does_not_block_the_next_occurrence(scene: Scene) {
    scene.recur(every(MINUTE)).await;
    scene.clock.forward(MINUTE);
    let first = scene.taken().await.remove(0);
    let hold = Verdict::Hold { failure: failure() };
    scene.settle(vec![settlement(&first.lease, hold)]).await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn overlap_allow_fires_while_the_latest_job_runs(scene: Scene) {
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

async fn occurrence_at_most_a_minute_late_is_fired(mut scene: Scene) {
    scene.recur(cron("30 10 * * *", "UTC")).await;
    scene.closed_for(Duration::from_secs(750 + 60));
    assert_eq!(scene.done().await, ["n-1"]);
    scene.closed_for(DAY + Duration::from_millis(1));
    assert_eq!(scene.done().await, Vec::<String>::new());
    let known = scene.known("n").await;
    assert_eq!(known.missed_at, Some(Millis(START + 750_000 + 86_400_000)));
}

async fn job_that_no_worker_takes_in_time_does_not_keep_the_next_one_away(scene: Scene) {
    let every = every(MINUTE);
    let unserved = NewJob { queue: "unserved".into(), expires: Some(MINUTE / 2), ..every.job.clone() };
    scene.recur(Recurring { job: unserved, ..every }).await;
    scene.clock.forward(MINUTE / 2);
    for id in ["n-1", "n-2"] {
        scene.clock.forward(MINUTE / 2);
        assert_eq!(scene.taken().await, []);
        assert_eq!(scene.known("n").await.latest.map(|latest| latest.id.to_string()).as_deref(), Some(id));
        scene.clock.forward(MINUTE / 2);
        for _ in 0..1000 {
            assert_eq!(scene.taken().await, []);
            if scene.record(id).await.state.has_ended() {
                break;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(scene.record(id).await.failure, Some(Failure::expired()));
    }
}

async fn job_of_an_occurrence_that_is_fired_too_late_expires(scene: Scene) {
    let every = every(10 * MINUTE);
    let job = NewJob { expires: Some(Duration::from_secs(5)), ..every.job.clone() };
    scene.recur(Recurring { job, ..every }).await;
    scene.clock.forward(10 * MINUTE + Duration::from_secs(6));
    assert_eq!(scene.taken().await, []);
    assert_eq!(scene.taken().await, []);
    assert_eq!(scene.record("n-1").await.failure, Some(Failure::expired()));
}

async fn missed_occurrences_are_not_fired_by_default(mut scene: Scene) {
    scene.recur(allow(every(10 * MINUTE))).await;
    scene.closed_for(10 * DAY + 5 * MINUTE);
    assert_eq!(scene.taken().await, []);
    let known = scene.known("n").await;
    assert_eq!((known.count, known.skipped), (0, 0));
    assert_eq!(known.missed_at, Some(Millis(START + 864_000_000)), "the last of them is told");
    scene.clock.forward(5 * MINUTE);
    assert_eq!(scene.done().await, ["n-1"], "it goes on in its own rhythm");
}

async fn missed_occurrences_within_catch_up_are_fired(mut scene: Scene) {
    scene.recur(Recurring { catch_up: 9 * HOUR, ..cron("30 2 * * *", "UTC") }).await;
    // Until 11:17:30: nine hours less 12 minutes late.
    scene.closed_for(DAY + HOUR);
    assert_eq!(scene.done().await, ["n-1"]);
    let night = START - (7 * 3600 + 47 * 60 + 30) * 1000 + 86_400_000;
    assert_eq!(scene.record("n-1").await.put_at, Millis(night));
    scene.closed_for(2 * DAY + HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new(), "at 12:17:30 it is too late");
    assert_eq!(scene.known("n").await.missed_at, Some(Millis(night + 2 * 86_400_000)));
}

async fn catch_up_fires_the_latest_occurrences_of_the_backlog(mut scene: Scene) {
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

/// Only for the embedded store: in a Redis all times are the server's.
#[tokio::test]
async fn wall_clock_changes_do_not_move_intervals() {
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

async fn wall_clock_set_back_fires_no_occurrence_twice(mut scene: Scene) {
    scene.recur(cron("0 11 * * *", "UTC")).await;
    scene.clock.forward(Duration::from_secs(2_550));
    assert_eq!(scene.done().await, ["n-1"]);
    scene.set_wall_clock(-2);
    scene.clock.forward(3 * HOUR);
    assert_eq!(scene.done().await, Vec::<String>::new(), "11:00 comes again");
    scene.clock.forward(23 * HOUR);
    assert_eq!(scene.done().await, ["n-2"]);
}

async fn schedule_recovers_from_a_wall_clock_far_ahead(mut scene: Scene) {
    scene.recur(cron("0 12 * * *", "UTC")).await;
    scene.set_wall_clock(24 * 365);
    scene.clock.forward(2 * MINUTE);
    assert_eq!(scene.done().await, Vec::<String>::new(), "what was jumped over is missed");
    assert!(scene.known("n").await.next_at.unwrap().0 > START + 300 * 86_400_000);
    scene.set_wall_clock(-24 * 365);
    // The next look notices it, and so does the next start.
    scene.closed_for(2 * MINUTE);
    assert_eq!(scene.done().await, Vec::<String>::new());
    assert_eq!(scene.known("n").await.next_at, Some(Millis(START + 6_150_000)));
    scene.clock.forward(99 * MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
}

async fn three_hundred_recurring_jobs_can_be_due_at_once(scene: Scene) {
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
async fn two_openers_of_a_store_fire_each_occurrence_once() {
    two_put_each_job_once(Scene::file()).await;
}

#[tokio::test]
async fn two_hosts_on_a_redis_fire_each_occurrence_once() {
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
async fn short_lived_client_fires_no_occurrence() {
    let mut scene = Scene::file();
    // No supervisor is there that the client could wake.
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
async fn recurring_job_put_by_another_process_fires_here() {
    let scene = Scene::file();
    scene.another().tell(every(MINUTE), "uid 7").await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await, ["n-1"]);
}

#[tokio::test]
async fn unreadable_recurring_job_does_not_block_others() {
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
async fn due_occurrence_wakes_the_supervisor() {
    let store = Broker::from(Sqlite::memory().unwrap());
    store.tell(every(Duration::from_secs(1)), "uid 7").await.unwrap();
    let woken = tokio::time::timeout(Duration::from_secs(40), store.next_notice()).await;
    assert!(matches!(woken, Ok(Notice::Wake(queues)) if queues.have_any_of(&["q".into()])));
    assert_eq!(ids(&store.fetch(request(&["q"], 1)).await.unwrap()), ["n-1"]);
}
