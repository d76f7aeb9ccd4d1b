//! Other settings, other sizes, new workers, pauses.

use std::time::Duration;

use taskvisor::model::{Recycle, Settings};

use super::prefork;
use super::script::{Story, check};

#[test]
fn new_workers_are_ready_before_old_ones_leave_which_end_their_jobs_first() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         1 reload outfit=1
         1.5 ready 1:1.2
         1.6 ready 1:2.2
         1.7 fetched:1
         1.8 exited 2.1 0
         3 done 1.1 a
         3.1 settled a
         3.2 exited 1.1 0
         4 reload",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > kill_at 1.1 58.2
        0.2 > fetch 2.1
        1 > equip 1 default outfit=1 workers=2
        1 > spawn 1:1.2
        1.5 > term 2.1 (replaced)
        1.5 > spawn 1:2.2
        1.5 > fetch 1:1.2
        3 > term 1.1 (replaced)
        3 > settle a complete",
    );
}

#[test]
fn workers_that_cannot_boot_replace_nobody_and_the_settings_that_follow_replace_them() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched
         1 reload outfit=1
         1.1 exited 1:1.2 1
         1.5 exited 1:1.3 1
         2 exited 1.1 1
         2.2 ready 1.2
         3 reload outfit=2
         3.1 ready 2:1.5
         3.2 exited 1.2 0
         3.3 ready 2:2.5",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        1 > equip 1 default outfit=1 workers=2
        1 > spawn 1:1.2
        1.2 > spawn 1:1.3
        1.71 > spawn 1:1.4
        2.11 > spawn 1.2
        3 > equip 2 default outfit=2 workers=2
        3 > term 1:1.4 (replaced)
        3 > spawn 2:1.5
        3.1 > term 2.1 (replaced)
        3.1 > spawn 2:2.5
        3.1 > fetch 2:1.5",
    );
}

#[test]
fn what_needs_no_new_workers_is_changed_in_place() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched
         1 reload workers=3
         1.1 ready 3.1
         2 reload workers=1
         2.1 exited 3.1 0
         2.2 exited 2.1 0
         3 reload workers=1",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        1 > equip 0 default outfit=0 workers=3
        1 > spawn 3.1
        2 > equip 0 default outfit=0 workers=1
        2 > term 2.1 (scaled down)
        2 > term 3.1 (scaled down)",
    );
}

#[test]
fn a_pool_that_was_scaled_by_hand_keeps_its_size_when_other_settings_change() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 scale +1
         1.1 ready 2.1
         1.2 fetched
         2 reload outfit=1
         2.1 ready 1:1.2
         2.15 fetched:1
         2.2 ready 1:2.2
         2.3 exited 2.1 0
         3 scale 0
         3.1 exited 1:1.2 0
         3.2 exited 1:2.2 0
         4 done 1.1 a
         4.1 exited 1.1 0",
        "0 > spawn 1.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > kill_at 1.1 58.2
        1 > spawn 2.1
        1.1 > fetch 2.1
        2 > equip 1 default outfit=1 workers=1
        2 > spawn 1:1.2
        2.1 > term 2.1 (replaced)
        2.1 > spawn 1:2.2
        2.1 > fetch 1:1.2
        3 > term 1:1.2 (scaled down)
        3 > term 1:2.2 (scaled down)
        4 > term 1.1 (replaced)
        4 > settle a complete",
    );
}

#[test]
fn while_it_is_paused_no_job_is_taken_and_one_on_its_way_goes_back() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 pause
         0.3 fetched a
         0.4 settled a
         5 woken
         200 resume
         200.1 fetched",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        0.3 > settle a released after 0
        200 > fetch 1.1 2.1",
    );
}

#[test]
fn another_supervisor_goes_on_with_what_was_asked_of_pools_until_settings_or_a_person_say_otherwise() {
    let mut ended = Story::new(prefork(1));
    ["scale +2", "pause", "recycle", "scale -1", "reload outfit=1"]
        .into_iter()
        .for_each(|words| ended.tell(words));
    check(
        Settings { changes: ended.supervisor.changes(), ..prefork(1) },
        "0.1 ready 1.1 / ready 2.1
         1 resume
         1.1 fetched
         2 reload
         3 reload workers=3
         3.1 ready 3.1",
        "0 > spawn 1.1
        0 > spawn 2.1
        1 > fetch 1.1 2.1
        3 > equip 0 default outfit=0 workers=3
        3 > spawn 3.1",
    );
}

#[test]
fn what_was_asked_of_a_pool_and_taken_back_is_not_kept() {
    let mut story = Story::new(prefork(2));
    ["scale 0", "pause", "scale 2", "resume"].into_iter().for_each(|words| story.tell(words));
    assert_eq!(story.supervisor.changes(), []);
}

#[test]
fn a_worker_that_is_worn_out_is_exchanged_when_no_more_than_a_quarter_is_away() {
    let mut settings = prefork(2);
    settings.pools[0].recycle = Recycle { jobs: Some(1), ..Recycle::default() };
    check(
        settings,
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a b
         0.3 done 1.1 a / done 2.1 b
         0.4 settled a / settled b
         0.5 exited 1.1 0
         0.6 ready 1.2
         0.7 exited 2.1 0
         0.8 ready 2.2",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > assign 2.1 b
        0.2 > kill_at 1.1 58.2
        0.2 > kill_at 2.1 58.2
        0.3 > term 1.1 (recycled: jobs)
        0.3 > settle a complete
        0.3 > fetch 2.1
        0.3 > settle b complete
        0.5 > spawn 1.2
        0.6 > term 2.1 (recycled: jobs)
        0.7 > spawn 2.2",
    );
}

#[test]
fn a_worker_that_has_outgrown_its_pool_is_exchanged_after_its_job() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.3 outgrown 1.1
         1 done 1.1 a
         1.1 settled a
         1.2 exited 1.1 0
         1.3 ready 1.2",
        "0 > spawn 1.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > kill_at 1.1 58.2
        1 > term 1.1 (recycled: memory)
        1 > settle a complete
        1.2 > spawn 1.2
        1.3 > fetch 1.2",
    );
}

#[test]
fn the_oldest_worker_is_exchanged_first_also_where_the_young_are_worn_out_by_then() {
    let mut settings = prefork(2);
    settings.pools[0].recycle = Recycle { age: Some(Duration::from_secs(1)), ..Recycle::default() };
    check(
        settings,
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched
         2 exited 1.1 0
         5 ready 1.2
         6 exited 2.1 0",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        1.01 > term 1.1 (recycled: age)
        2 > spawn 1.2
        5 > term 2.1 (recycled: age)
        6 > spawn 2.2",
    );
}

#[test]
fn the_size_of_the_time_of_day_ends_what_a_person_asked_for_and_a_person_asks_again() {
    check(
        prefork(1),
        "0.1 resized default 3
         0.2 scale 1
         0.3 resized other 9
         0.4 resized default 2 / scale +1",
        "0 > spawn 1.1
        0.1 > spawn 2.1
        0.1 > spawn 3.1
        0.2 > term 2.1 (scaled down)
        0.2 > term 3.1 (scaled down)
        0.4 > spawn 4.1
        0.4 > spawn 5.1",
    );
}
