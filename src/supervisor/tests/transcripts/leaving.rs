//! Workers and templates that say themselves that they are to be replaced.

use super::script::{Story, check, event};
use super::{coroutine, prefork, template};

/// The template forks its only worker, which runs a job.
const FORKED_WELL: [&str; 5] = ["ready 0.1", "ready 1.1", "fetched a", "done 1.1 a", "exited 1.1 0"];

/// The deaths that status and metrics count.
fn deaths(story: &Story) -> u64 {
    let status = &story.supervisor.status(story.now)[0];
    let slots = status.template.iter().chain(&status.slots);
    let counted: u64 = story.supervisor.tallies().values().map(|tally| tally.restarts).sum();
    slots.map(|slot| u64::from(slot.restarts)).sum::<u64>() + counted
}

#[test]
fn template_that_leaves_after_a_good_fork_is_replaced_at_once_and_counts_as_no_death() {
    // The fork that was asked for meanwhile is made by the next one.
    let ends = ["leaving 0.1", "spawn_failed 1.2", "exited 0.1 0"];
    for at_once in [false, true] {
        let mut story = Story::new(template(1));
        FORKED_WELL.iter().for_each(|event| story.tell(event));
        if at_once {
            story.supervisor.handle_all(story.now, ends.map(|words| event(story.now, words)));
            story.write();
        } else {
            ends.iter().for_each(|event| story.tell(event));
        }
        story.tell("ready 0.2");
        for order in ["fork 1.2 from 0.1", "spawn 0.2", "fork 1.3 from 0.2"] {
            assert!(story.transcript.contains(&format!("0 > {order}\n")), "{}", story.transcript);
        }
        assert_eq!(deaths(&story), 0);
    }
}

#[test]
fn template_that_leaves_forks_no_more_and_is_killed_after_its_grace() {
    check(
        template(1),
        "0.5 ready 0.1
         0.6 ready 1.1
         0.7 fetched a
         1 leaving 0.1
         2 done 1.1 a / exited 1.1 0
         11 exited 0.1 killed
         12 ready 0.2",
        "0 > spawn 0.1
         0.5 > fork 1.1 from 0.1
         0.6 > fetch 1.1
         0.7 > assign 1.1 a
         0.7 > kill_at 1.1 58.7
         1 > term 0.1 (its own word)
         2 > settle a complete
         11 > kill 0.1 (its own word)
         11 > spawn 0.2
         12 > fork 1.2 from 0.2",
    );
}

#[test]
fn life_that_leaves_before_it_was_of_use_is_followed_after_a_growing_wait() {
    check(
        prefork(1),
        "0.1 ready 1.1
         0.2 leaving 1.1
         0.3 exited 1.1 0
         1 ready 1.2 / leaving 1.2 / exited 1.2 0
         2 ready 1.3 / leaving 1.3",
        "0 > spawn 1.1
         0.1 > fetch 1.1
         0.2 > term 1.1 (its own word)
         0.4 > spawn 1.2
         1 > term 1.2 (its own word)
         1.21 > spawn 1.3
         2 > term 1.3 (its own word)",
    );
}

#[test]
fn worker_that_leaves_ends_its_jobs_first_and_gets_no_more() {
    check(
        coroutine(1),
        "0.1 ready 1.1
         0.2 fetched a
         1 leaving 1.1
         2 done 1.1 a
         2.1 exited 1.1 0",
        "0 > spawn 1.1
         0.1 > fetch 1.1 1.1 1.1
         0.2 > assign 1.1 a
         0.2 > kill_at 1.1 58.2
         2 > term 1.1 (its own word)
         2 > settle a complete
         2.1 > spawn 1.2",
    );
}

#[test]
fn worker_that_leaves_a_shrinking_pool_is_not_followed() {
    for events in [["scale 1", "leaving 2.1"], ["leaving 2.1", "scale 1"]] {
        let mut story = Story::new(prefork(2));
        ["ready 1.1", "ready 2.1"].iter().chain(&events).for_each(|event| story.tell(event));
        story.tell("exited 2.1 0");
        assert!(!story.transcript.contains("spawn 2.2"), "{}", story.transcript);
    }
}
