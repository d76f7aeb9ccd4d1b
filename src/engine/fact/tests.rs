//! Tests of the facts that commands and events are, and of their sentences.

use std::cell::Cell;
use std::time::Duration;

use super::*;
use model::{Change, Exit, ExitStatus, Failure, Fence, Revocation, Settlement, Signal, SlotId, Verdict};

/// Names pool 1, by the name that it has at the moment.
struct Named(Cell<&'static str>);

impl Names for Named {
    fn pool(&self, number: u16) -> Arc<str> {
        if number == 1 { self.0.get().into() } else { "zero".into() }
    }

    fn pid(&self, _: WorkerId) -> Option<i32> {
        Some(9)
    }
}

fn worker() -> WorkerId {
    WorkerId { slot: SlotId { pool: 1, index: 2 }, generation: 7 }
}

fn of_event(event: &Event) -> Fact {
    Fact::of_event(event, &Named(Cell::new("mail"))).expect("a fact")
}

fn of_command(command: &Command) -> Fact {
    Fact::of_command(command, &Named(Cell::new("mail"))).expect("a fact")
}

fn exit(status: ExitStatus, oom: bool) -> Exit {
    let (usage, proof) = Default::default();
    Exit { status, usage, left_behind: 0, oom, oom_at_bound: false, proof }
}

/// The sentence of the log; None = it has no line.
fn logged(fact: &Fact) -> Option<String> {
    let mut logged = None;
    fact.row(Voice::Plain, &mut |row| logged = row.level.map(|_| row.sentence()));
    logged
}

#[test]
fn log_and_why_have_one_sentence_which_names_its_subject_where_no_field_does() {
    let ready = of_event(&Event::Ready(worker()));
    assert_eq!(logged(&ready).as_deref(), Some("a worker takes jobs"));
    assert_eq!(ready.sentence(), "worker mail.2#7 takes jobs");
    let cancel = of_command(&Command::Cancel { worker: worker(), job: "a".into(), why: "canceled" });
    assert_eq!(logged(&cancel).as_deref(), Some("a worker is asked to end a job: canceled"));
    assert_eq!(cancel.sentence(), "worker mail.2#7 is asked to end job a: canceled");
    let (queue, class, fence) = ("q".into(), "mail.Send".into(), Fence(1));
    let assigned = OfJob::Assigned { fence, queue, class, attempt: 2, pid: 0 };
    let assigned = Fact::Job(JobAt { job: "a".into(), worker: "mail.2#7".parse().ok() }, assigned);
    assert_eq!(logged(&assigned).as_deref(), Some("a job of class mail.Send is assigned, attempt 2"));
    assert_eq!(assigned.sentence(), "job a of class mail.Send is assigned to worker mail.2#7, attempt 2");
    let (pool, change, by) = (Some("mail".into()), Change::Pause, "uid 0".into());
    let paused = Fact::Service(OfService::Changed { pool, change, by, reason: Some("lunch".into()) });
    let sentence = "paused: pool mail will take no more jobs until resumed: lunch";
    assert_eq!(logged(&paused).as_deref(), Some(sentence));
    assert_eq!(paused.sentence(), format!("{sentence} (uid 0)"), "the log has a field for it");
}

#[test]
fn end_of_a_worker_has_one_wording_for_all() {
    let exit = exit(ExitStatus::Signal { signal: 9, core: false }, true);
    let exited = of_event(&Event::Exited { worker: worker(), exit, followed: true });
    assert_eq!(exited.sentence(), "worker mail.2#7 has ended: out of memory");
    let (mut detail, mut counted) = (String::new(), model::PoolCounters::default());
    exited.row(Voice::Plain, &mut |row| {
        detail = row.detail.expect("a text").to_string();
        row.pool_count.expect("a counter")(&mut counted);
        assert_eq!((row.event, row.ring), (Some(model::What::Exited), Some(Ring::Seldom)));
    });
    assert_eq!((detail.as_str(), counted.killed, counted.spawned), ("out of memory", 1, 1));
}

#[test]
fn fact_keeps_the_name_that_its_pool_had_then() {
    let names = Named(Cell::new("one"));
    let before = Fact::of_command(&Command::Spawn(worker()), &names).unwrap();
    names.0.set("two");
    let after = Fact::of_command(&Command::Spawn(worker()), &names).unwrap();
    assert_eq!((before.pool(), after.pool()), (Some("one"), Some("two")));
}

#[test]
fn verdict_of_the_broker_names_the_failure_and_the_next_try() {
    let failure = Failure { group: "crashed".into(), message: "it died\nof shame".into(), trace: None };
    let says = |verdict, crashed| {
        let settlement = Settlement { job: "a".into(), fence: Fence(1), verdict, crashed, forensics: None };
        of_command(&Command::Settle(settlement)).sentence()
    };
    let after = Duration::from_millis(1500);
    let retry = |crashed| says(Verdict::Retry { after, failure: failure.clone() }, crashed);
    assert_eq!(retry(false), "job a did not complete and is tried again in 1s500ms: crashed: it died");
    assert_eq!(retry(true), "the worker died under job a, which is tried again in 1s500ms: crashed: it died");
    let release = |after| says(Verdict::Release { after, counts: None }, false);
    assert_eq!(release(Duration::ZERO), "job a goes back to its queue, the attempt unspent");
    assert_eq!(release(after), "job a goes back to its queue for 1s500ms, the attempt unspent");
    assert_eq!(says(Verdict::Hold { failure }, true), "job a is held for a person: crashed: it died");
}

#[test]
fn death_is_logged_with_the_next_start_or_with_its_job() {
    let words = |booted, next, jobs| {
        logged(&Fact::Worker("mail.2#7".parse().unwrap(), OfWorker::died("signal 9", booted, next, jobs)))
    };
    let next = Some(Duration::from_millis(400));
    let early = "a worker died before it was ready: signal 9; the next one starts in 400ms";
    assert_eq!(words(false, next, 0).as_deref(), Some(early));
    let many = "a worker died: signal 9; none follows; its 3 jobs are run again, each alone";
    assert_eq!(words(true, None, 3).as_deref(), Some(many));
    assert_eq!(words(true, next, 1), None);
}

#[test]
fn facts_that_come_with_every_job_are_kept_apart() {
    let ring = |fact: &Fact| {
        let mut ring = None;
        fact.row(Voice::Named, &mut |row| ring = row.ring);
        ring
    };
    let signal =
        |why: &str| of_command(&Command::Signal { worker: worker(), signal: Signal::Term, why: why.into() });
    assert_eq!([ring(&signal("spent")), ring(&signal("idle"))], [Some(Ring::Often), Some(Ring::Seldom)]);
    let ended = |code| {
        let exit = exit(ExitStatus::Code(code), false);
        of_event(&Event::Exited { worker: worker(), exit, followed: false })
    };
    assert_eq!([ring(&ended(0)), ring(&ended(3))], [Some(Ring::Often), Some(Ring::Seldom)]);
    let revoked = Event::Revoked { job: "a".into(), fence: Fence(1), why: Revocation::Canceled };
    assert_eq!(ring(&of_event(&revoked)), Some(Ring::Seldom));
    assert_eq!(ring(&of_event(&Event::RenewFailed("a".into(), Fence(1)))), None);
}

#[test]
fn order_of_a_person_is_told_when_it_is_given_alone() {
    let names = Named(Cell::new("mail"));
    assert_eq!(Fact::of_event(&Event::Stop(model::Stop::Drain), &names), None);
    assert_eq!(Fact::of_event(&Event::Change(None, Change::Pause), &names), None);
}
