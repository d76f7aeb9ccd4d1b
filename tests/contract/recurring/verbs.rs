//! The verbs of recurring jobs: put, remove, list, pause, run; and what they refuse.

use super::*;

contract!(
    needs [Recur];
    second_put_keeps_the_number_and_the_next_time,
    second_put_with_another_schedule_uses_the_new_schedule,
    removed_recurring_job_stops_and_reuses_no_number,
    ids_in_use_are_skipped,
    jobs_for_a_paused_queue_wait,
    paused_recurring_job_fires_nothing_and_catches_up_as_configured,
    fired_job_has_all_fields_of_its_template,
    recurring_job_can_be_run_at_once,
    recurring_jobs_are_listed_by_name_and_their_jobs_by_filter,
    queue_with_a_recurring_job_cannot_be_forgotten,
    latest_job_of_a_recurring_job_does_not_expire,
    invalid_recurring_jobs_are_refused,
    unknown_time_zone_is_refused_with_a_suggestion,
);

async fn second_put_keeps_the_number_and_the_next_time(scene: Scene) {
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

async fn second_put_with_another_schedule_uses_the_new_schedule(scene: Scene) {
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

async fn removed_recurring_job_stops_and_reuses_no_number(scene: Scene) {
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

async fn ids_in_use_are_skipped(scene: Scene) {
    scene.put(vec![job("n-1"), job("n-2"), job("n-4")]).await.unwrap();
    assert_eq!(scene.done().await, ["n-1", "n-2", "n-4"]);
    scene.recur(every(MINUTE)).await;
    for id in ["n-3", "n-5"] {
        scene.clock.forward(MINUTE);
        assert_eq!(scene.done().await, [id]);
    }
    assert_eq!(scene.record("n-4").await.recurring, None);
}

async fn paused_recurring_job_fires_nothing_and_catches_up_as_configured(mut scene: Scene) {
    let strict = every(HOUR);
    let lenient = Recurring { name: "m".into(), catch_up: 2 * HOUR, ..every(HOUR) };
    for one in [&strict, &lenient] {
        scene.recur(one.clone()).await;
        scene.tell(PauseRecurring { name: one.name.clone() }, "uid 8").await.unwrap();
    }
    scene.clock.forward(HOUR * 5 / 2);
    assert_eq!(scene.done().await, Vec::<String>::new());
    scene.closed_for(HOUR);
    scene.recur(strict.clone()).await;
    let known = scene.known("n").await;
    let since = Millis(START);
    assert_eq!(
        known.paused,
        Some(Pause { since, by: "uid 8".into(), reason: None }),
        "put again it stays so"
    );
    assert_eq!(known.next_at, Some(Millis(START + 3_600_000)), "it is due when it was");
    scene.tell(PauseRecurring { name: "n".into() }, "uid 9").await.unwrap();
    assert_eq!(scene.known("n").await, known, "it is paused already");
    assert_eq!(scene.tell(RunRecurring { name: "n".into() }, "").await.unwrap().id, "n-1".into());
    assert_eq!(scene.done().await, ["n-1"]);
    for one in [&strict, &lenient] {
        scene.tell(ResumeRecurring { name: one.name.clone() }, "").await.unwrap();
    }
    assert_eq!(scene.done().await, ["m-1"], "it is half an hour late");
    let (n, m) = (scene.known("n").await, scene.known("m").await);
    assert_eq!((n.paused, n.missed_at), (None, Some(Millis(START + 3 * 3_600_000))));
    assert_eq!((m.missed_at, m.next_at), (Some(Millis(START + 2 * 3_600_000)), n.next_at));
    scene.clock.forward(HOUR / 2);
    assert_eq!(scene.done().await.len(), 2);
    let none = PauseRecurring { name: "none".into() };
    assert_eq!(scene.tell(none, "").await, Err(Error::NoRecurring("none".into())));
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

async fn fired_job_has_all_fields_of_its_template(scene: Scene) {
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

async fn recurring_job_can_be_run_at_once(scene: Scene) {
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

async fn recurring_jobs_are_listed_by_name_and_their_jobs_by_filter(scene: Scene) {
    for name in ["b", "a", "B"] {
        scene.recur(Recurring { name: name.into(), ..every(MINUTE) }).await;
    }
    let all = scene.tell(ListRecurring {}, "").await.unwrap();
    let names: Vec<&str> = all.iter().map(|one| one.recurring.name.as_str()).collect();
    assert_eq!(names, ["B", "a", "b"]);
    scene.put(vec![job("other")]).await.unwrap();
    scene.clock.forward(MINUTE);
    assert_eq!(scene.done().await.len(), 4);
    let of = |name: &str| Filter { recurring: Some(name.into()), ..Filter::default() };
    let jobs = scene.list(of("a")).await.unwrap();
    assert_eq!(jobs.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["a-1"]);
    assert_eq!(scene.list(of("x")).await, Err(Error::NoRecurring("x".into())));
    scene.tell(RemoveRecurring { name: "a".into() }, "").await.unwrap();
    assert_eq!(scene.list(of("a")).await.unwrap(), jobs, "its jobs stay");
}

async fn queue_with_a_recurring_job_cannot_be_forgotten(scene: Scene) {
    for name in ["d", "c", "b", "a"] {
        scene.recur(Recurring { name: name.into(), ..every(HOUR) }).await;
    }
    let forget = || scene.tell(Forget { queue: "q".into(), discard: true, after: None }, "");
    let Err(Error::InUse(_, why)) = forget().await else { panic!("it is forgotten") };
    let (words, names) = why.split_once(": ").unwrap();
    assert_eq!((words, names.split(", ").count()), ("recurring jobs are put into it", 3), "{why}");
    for name in ["a", "b", "c", "d"] {
        assert!(forget().await.is_err());
        scene.tell(RemoveRecurring { name: name.into() }, "").await.unwrap();
    }
    forget().await.unwrap();
    assert!(scene.counts().await.unwrap().is_empty());
}

async fn latest_job_of_a_recurring_job_does_not_expire(scene: Scene) {
    let keep = SetOption { name: "keep_complete".into(), value: "1h".into(), queue: None };
    scene.tell(keep, "").await.unwrap();
    scene.recur(every(DAY)).await;
    for n in 1..=2 {
        scene.clock.forward(DAY);
        assert_eq!(scene.done().await, [format!("n-{n}")]);
    }
    // Expiry runs periodically: old jobs are gone after some looks.
    for _ in 0..50 {
        scene.clock.forward(2 * MINUTE);
        scene.fetch(request(&["none"], 1)).await.unwrap();
    }
    let left = scene.list(Filter::default()).await.unwrap();
    assert_eq!(left.iter().map(|job| job.id.as_str()).collect::<Vec<_>>(), ["n-2"]);
    assert_eq!(scene.known("n").await.latest.unwrap().id.as_str(), "n-2");
}

async fn invalid_recurring_jobs_are_refused(scene: Scene) {
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

async fn unknown_time_zone_is_refused_with_a_suggestion(scene: Scene) {
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
