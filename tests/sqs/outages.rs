//! An outage of SQS that is longer than the lease: what ends meanwhile, what runs, and what carries on.

use std::time::Duration;

use crate::jobs::Scene;
use crate::sandbox::{alive, wait_until, wait_within};
use crate::sqs::Knobs;

const ALL: [&str; 6] = [
    "ReceiveMessage",
    "DeleteMessageBatch",
    "ChangeMessageVisibilityBatch",
    "SendMessageBatch",
    "GetQueueUrl",
    "GetQueueAttributes",
];
const POOLS: &str = "lease: 10s
pools:
- {name: fenced, queues: [mail], workers: 2, grace: 1s}
- {name: bold, queues: [long], workers: 1, grace: 1s, when_cut_off: carry_on}
";

#[test]
fn outage_without_an_answer_repeats_no_ended_job_and_ends_none_that_carries_on() {
    outage(|knobs| knobs.gone = true);
}

#[test]
fn outage_that_refuses_all_repeats_no_ended_job_and_ends_none_that_carries_on() {
    outage(|knobs| knobs.access_denied = true);
}

#[test]
fn outage_that_hangs_repeats_no_ended_job_and_ends_none_that_carries_on() {
    outage(|knobs| knobs.stalled = ALL.map(Into::into).to_vec());
}

/// Three jobs: one ends well in the outage, one runs and is killed before its lease ends, one runs and carries on.
fn outage(begin: impl FnOnce(&mut Knobs)) {
    let scene = Scene::new();
    scene.send_shell("mail", "echo ended >>ended; while [ ! -e go ]; do sleep 0.02; done");
    scene.send_shell("mail", "echo $$ >>killed; exec sleep 600");
    scene.send_shell("long", "echo $$ >>long; while [ ! -e end ]; do sleep 0.02; done");
    let file = scene.sandbox.path("outage.yaml");
    std::fs::write(&file, POOLS).unwrap();
    let _running = scene.start(&["--config", file.to_str().unwrap()]);
    let runs = || ["ended", "killed", "long"].iter().all(|name| scene.said(name).lines().count() == 1);
    wait_until("all run", runs);
    let pid = |name: &str| scene.said(name).lines().next().unwrap().parse::<i32>().unwrap();
    let (killed, long) = (pid("killed"), pid("long"));

    scene.fake.knobs(begin);
    std::fs::write(scene.sandbox.work("go"), "").unwrap();
    wait_within(Duration::from_secs(30), "the lease is nearly over here", || !alive(killed));
    scene.fake.advance(Duration::from_secs(30));
    assert!(alive(long), "it carries on");
    scene.fake.knobs(|knobs| *knobs = Knobs::default());

    wait_within(Duration::from_secs(60), "what was killed runs again", || {
        scene.said("killed").lines().count() == 2
    });
    wait_within(Duration::from_secs(60), "the ended one is complete and deleted", || {
        scene.jobs(&["--state", "complete"]).len() == 1 && scene.fake.bodies("mail").len() == 1
    });
    assert!(alive(long), "nobody else has taken it");
    std::fs::write(scene.sandbox.work("end"), "").unwrap();
    wait_within(Duration::from_secs(60), "it is complete and deleted", || {
        scene.jobs(&["--state", "complete"]).len() == 2 && scene.is_empty("long")
    });
    assert_eq!((scene.said("ended").lines().count(), scene.said("long").lines().count()), (1, 1));
}
