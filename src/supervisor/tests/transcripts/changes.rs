//! Reload, scale, recycle and pause.

use std::time::Duration;

use model::{Recycle, Settings};

use super::prefork;
use super::script::{Story, check};

#[test]
fn reload_ends_old_workers_after_new_ones_are_ready_and_their_jobs_are_done() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a
         1 reload spec=1
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
        1 > equip 1 default spec=1 workers=2
        1 > spawn 1:1.2
        1.5 > term 2.1 (replaced)
        1.5 > spawn 1:2.2
        1.5 > fetch 1:1.2
        3 > term 1.1 (replaced)
        3 > settle a complete",
    );
}

#[test]
fn reload_to_broken_workers_keeps_the_old_ones_until_the_next_reload() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched
         1 reload spec=1
         1.1 exited 1:1.2 1
         1.5 exited 1:1.3 1
         2 exited 1.1 1
         2.2 ready 1.2
         3 reload spec=2
         3.1 ready 2:1.5
         3.2 exited 1.2 0
         3.3 ready 2:2.5",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        1 > equip 1 default spec=1 workers=2
        1 > spawn 1:1.2
        1.2 > spawn 1:1.3
        1.71 > spawn 1:1.4
        2.11 > spawn 1.2
        3 > equip 2 default spec=2 workers=2
        3 > term 1:1.4 (replaced)
        3 > spawn 2:1.5
        3.1 > term 2.1 (replaced)
        3.1 > spawn 2:2.5
        3.1 > fetch 2:1.5",
    );
}

#[test]
fn reload_changes_settings_in_place_when_no_new_workers_are_needed() {
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
        1 > equip 0 default spec=0 workers=3
        1 > spawn 3.1
        2 > equip 0 default spec=0 workers=1
        2 > term 2.1 (scaled down)
        2 > term 3.1 (scaled down)",
    );
}

#[test]
fn manually_scaled_pool_keeps_its_size_when_other_settings_change() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 scale +1
         1.1 ready 2.1
         1.2 fetched
         2 reload spec=1
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
        2 > equip 1 default spec=1 workers=1
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
fn pool_scaled_down_and_up_again_keeps_the_worker_that_still_has_a_job() {
    check(
        prefork(2),
        "0.1 ready 1.1 / ready 2.1
         0.2 fetched a b
         1 scale 1
         2 scale 2
         3 done 1.1 a / done 2.1 b
         3.1 settled a / settled b",
        "0 > spawn 1.1
        0 > spawn 2.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > assign 2.1 b
        0.2 > kill_at 1.1 58.2
        0.2 > kill_at 2.1 58.2
        3 > fetch 1.1
        3 > settle a complete
        3 > settle b complete",
    );
}

#[test]
fn paused_pool_fetches_no_job_and_releases_one_already_fetched() {
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
fn pause_and_resume_are_also_for_old_workers_that_wait_for_the_new_ones() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched
         1 reload spec=1
         2 pause
         3 woken
         20 resume
         20.1 fetched",
        "0 > spawn 1.1
        0.1 > fetch 1.1
        1 > equip 1 default spec=1 workers=1
        1 > spawn 1:1.2
        20 > fetch 1.1",
    );
}

#[test]
fn next_supervisor_keeps_scale_and_pause_until_a_reload_or_order_changes_them() {
    let mut ended = Story::new(prefork(1));
    ["scale +2", "pause", "recycle", "scale -1", "reload spec=1"]
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
        3 > equip 0 default spec=0 workers=3
        3 > spawn 3.1",
    );
}

#[test]
fn reverted_scale_and_pause_are_not_kept() {
    let mut story = Story::new(prefork(2));
    ["scale 0", "pause", "scale 2", "resume"].into_iter().for_each(|words| story.tell(words));
    assert_eq!(story.supervisor.changes(), []);
}

#[test]
fn worn_out_workers_are_recycled_at_most_a_quarter_at_a_time() {
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
fn only_worker_over_its_recycle_size_works_on_until_the_next_one_is_ready() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 fetched a
         0.3 outgrown 1.1
         1 done 1.1 a
         1.1 settled a
         1.2 fetched b
         1.3 done 1.1 b
         1.4 settled b
         1.5 ready 1:1.2
         1.6 exited 1.1 0 / fetched
         1.7 outgrown 1:1.2
         1.8 ready 1.3",
        "0 > spawn 1.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > kill_at 1.1 58.2
        0.3 > equip 1 default spec=0 workers=1
        0.3 > spawn 1:1.2
        1 > fetch 1.1
        1 > settle a complete
        1.2 > assign 1.1 b
        1.3 > fetch 1.1
        1.3 > settle b complete
        1.5 > term 1.1 (recycled: memory)
        1.5 > fetch 1:1.2
        1.7 > equip 0 default spec=0 workers=1
        1.7 > spawn 1.3
        1.8 > term 1:1.2 (recycled: memory)
        1.8 > fetch 1.3",
    );
}

#[test]
fn job_of_a_worn_out_worker_keeps_its_place_beside_the_next_worker() {
    let mut settings = prefork(1);
    settings.pools[0].recycle = Recycle { age: Some(Duration::from_secs(1)), ..Recycle::default() };
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a
         2 ready 1:1.2
         5 done 1.1 a
         5.1 settled a
         5.2 fetched:1 b
         5.3 exited 1.1 0
         5.4 done 1:1.2 b",
        "0 > spawn 1.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > kill_at 1.1 58.2
        1.01 > equip 1 default spec=0 workers=1
        1.01 > spawn 1:1.2
        5 > term 1.1 (recycled: age)
        5 > fetch 1:1.2
        5 > settle a complete
        5.2 > assign 1:1.2 b
        5.2 > kill_at 1:1.2 63.2
        5.3 > equip 0 default spec=0 workers=1
        5.3 > spawn 1.3
        5.4 > fetch 1:1.2
        5.4 > settle b complete",
    );
}

#[test]
fn worker_for_one_job_never_has_a_second_one_while_the_next_starts() {
    let mut settings = prefork(1);
    settings.pools[0].recycle = Recycle { jobs: Some(1), ..Recycle::default() };
    check(
        settings,
        "0.1 ready 1.1
         0.2 fetched a
         1 done 1.1 a
         1.1 settled a
         1.2 exited 1.1 0
         1.3 ready 1.2",
        "0 > spawn 1.1
        0.1 > fetch 1.1
        0.2 > assign 1.1 a
        0.2 > kill_at 1.1 58.2
        1 > term 1.1 (recycled: jobs)
        1 > settle a complete
        1.2 > spawn 1.2
        1.3 > fetch 1.2",
    );
}

#[test]
fn oldest_worn_out_worker_is_recycled_first() {
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
fn time_of_day_size_overrides_a_manual_scale_until_the_next_scale() {
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
