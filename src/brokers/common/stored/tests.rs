//! Samples of stored values. Later versions must read what released versions wrote, so the formats are stable.

use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::*;
use model::{
    Attempt, Caught, Count, DeadWorker, Entry, Exec, Exit, ExitStatus, Failure, Fence, Forensics, Happened,
    JobState, Millis, NewJob, Overlap, Pause, Payload, Progress, Recurring, Retry, Schedule, Signal,
    SignalSent, SlotId, Snapshot, Usage, WorkerId, WorkerName,
};

const WHAT_TO_DO: &str = "what stores hold must not change: stores that are there could not be read. Give the row in \
                          src/brokers/common/stored/ the name it had (#[serde(rename)]), and a new field a default";

#[track_caller]
fn kept<T: PartialEq + std::fmt::Debug>(value: &T, text: &str)
where
    for<'a> Stored<&'a T>: Serialize,
    Stored<T>: DeserializeOwned,
{
    assert_eq!(to_json(value).unwrap(), text, "{WHAT_TO_DO}");
    assert_eq!(&from_json::<T>(text.as_bytes()).unwrap(), value, "{WHAT_TO_DO}");
}

fn worker() -> WorkerName {
    WorkerName::new("mail", WorkerId { slot: SlotId { pool: 2, index: 1 }, generation: 7 })
}

fn failure() -> Failure {
    Failure { group: "exit 1".into(), message: "it returned 1".into(), trace: Some("line 1".into()) }
}

fn forensics() -> Forensics {
    let caught = Caught {
        depth: 1,
        pid: 9,
        name: "sh".into(),
        state: "S".into(),
        wchan: Some("do_wait".into()),
        syscall: Some(61),
        rss: 4096,
        cpu: Duration::from_millis(20),
        threads: 1,
        files: Some(3),
        open: vec!["/tmp/a".into()],
        stacks: Some("in f".into()),
    };
    Forensics {
        worker: Some(worker()),
        ran: Duration::new(3, 141),
        exit: Some(Exit {
            status: ExitStatus::Signal { signal: 9, core: false },
            usage: Usage {
                user: Duration::from_millis(5),
                system: Duration::from_millis(7),
                max_rss: 1 << 20,
            },
            left_behind: 2,
            oom: true,
            oom_at_bound: false,
            proof: Duration::from_micros(10),
        }),
        shared: true,
        cpu: Some(Duration::from_millis(4)),
        signals: vec![SignalSent {
            after: Duration::from_secs(3),
            signal: Signal::Kill,
            why: "time limit".into(),
        }],
        ended_for: None,
        oom_kills: Some(2),
        stderr_tail: "oh\n".into(),
        output_dropped: 5,
        left: vec!["sleep 9".into()],
        snapshot: Some(Box::new(Snapshot { processes: vec![caught], left_out: 4 })),
        died_before: Some(Box::new(DeadWorker {
            worker: worker(),
            ran: Duration::from_secs(1),
            how: "signal 11".into(),
        })),
        at: Some(Millis(1_700_000_000_123)),
    }
}

fn exec() -> Exec {
    let stdin = model::Bytes(b"\xff\n".to_vec());
    Exec { argv: vec!["sh".into(), "-c".into()], cwd: "/home/ada".into(), umask: 0o22, stdin }
}

#[test]
fn stored_format_of_puts_is_stable() {
    kept(&exec(), r#"{"argv":["sh","-c"],"cwd":"/home/ada","umask":18,"stdin":{"b64":"/wo="}}"#);
    kept(&Exec { stdin: "".into(), ..exec() }, r#"{"argv":["sh","-c"],"cwd":"/home/ada","umask":18}"#);
    kept(
        &Retry { retries: 2, delay: Duration::from_millis(1500), cap: Duration::from_secs(900) },
        r#"{"retries":2,"delay":{"secs":1,"nanos":500000000},"cap":{"secs":900,"nanos":0}}"#,
    );
    kept(
        &Progress { fraction: Some(0.5), message: Some("half".into()) },
        r#"{"fraction":0.5,"message":"half"}"#,
    );
    kept(&Progress::default(), "{}");
    let pause = Pause { since: Millis(1_700_000_000_123), by: "uid 7".into(), reason: None };
    kept(&pause, r#"{"since":1700000000123,"by":"uid 7","reason":null}"#);
}

#[test]
fn stored_format_of_recurring_jobs_is_stable() {
    let job = NewJob {
        depends: vec!["j1".into()],
        tags: vec!["a".into()],
        retry: Some(Retry::CLASS),
        time_limit: Some(Duration::from_secs(60)),
        priority: -1,
        delay: Duration::from_secs(5),
        ..NewJob::new("mail".into(), "mail.Send".into(), Payload::Data(r#"{"n": 1.0}"#.into()))
    };
    let every = Schedule::Every { interval: Duration::from_secs(60), offset: Duration::ZERO };
    let recurring = Recurring {
        name: "nightly".into(),
        schedule: every.clone(),
        overlap: Overlap::Skip,
        catch_up: Duration::from_secs(3600),
        backlog: 3,
        job,
    };
    kept(&every, r#"{"every":{"interval":{"secs":60,"nanos":0},"offset":{"secs":0,"nanos":0}}}"#);
    let cron = Schedule::Cron { line: "0 6 * * 1-5".parse().unwrap(), zone: "Europe/Vienna".into() };
    kept(&cron, r#"{"cron":{"line":"0 6 * * 1-5","zone":"Europe/Vienna"}}"#);
    kept(
        &recurring,
        concat!(
            r#"{"name":"nightly","schedule":{"every":{"interval":{"secs":60,"nanos":0},"offset":{"secs":0,"nanos":0}}},"#,
            r#""overlap":"skip","catch_up":{"secs":3600,"nanos":0},"backlog":3,"job":{"queue":"mail","class":"mail.Send","#,
            r#""payload":{"data":"{\"n\": 1.0}"},"priority":-1,"delay":{"secs":5,"nanos":0},"depends":["j1"],"tags":["a"],"#,
            r#""retry":{"retries":5,"delay":{"secs":1,"nanos":0},"cap":{"secs":900,"nanos":0}},"#,
            r#""time_limit":{"secs":60,"nanos":0}}}"#
        ),
    );
    let program = NewJob {
        id: Some("j9".into()),
        exists: model::Exists::Skip,
        token: Some("t".into()),
        ..NewJob::new("q".into(), "exec".into(), Payload::Exec(exec()))
    };
    kept(
        &Recurring { job: program, ..recurring },
        concat!(
            r#"{"name":"nightly","schedule":{"every":{"interval":{"secs":60,"nanos":0},"offset":{"secs":0,"nanos":0}}},"#,
            r#""overlap":"skip","catch_up":{"secs":3600,"nanos":0},"backlog":3,"job":{"id":"j9","exists":"skip","#,
            r#""token":"t","queue":"q","class":"exec","payload":{"exec":{"argv":["sh","-c"],"cwd":"/home/ada","#,
            r#""umask":18,"stdin":{"b64":"/wo="}}},"priority":0,"delay":{"secs":0,"nanos":0},"tags":[],"retry":null,"#,
            r#""time_limit":null}}"#
        ),
    );
}

/// The forensics of the sample.
const FORENSICS: &str = concat!(
    r#"{"worker":{"slot":"mail.1","generation":7},"ran":{"secs":3,"nanos":141},"exit":{"status":{"signal":"#,
    r#"{"signal":9,"core":false}},"usage":{"user":{"secs":0,"nanos":5000000},"system":{"secs":0,"nanos":7000000},"#,
    r#""max_rss":1048576},"left_behind":2,"oom":true,"oom_at_bound":false,"proof":{"secs":0,"nanos":10000}},"shared":true,"cpu":{"secs":0,"nanos":4000000},"#,
    r#""signals":[{"after":{"secs":3,"nanos":0},"signal":"KILL","why":"time limit"}],"oom_kills":2,"stderr_tail":"oh\n","#,
    r#""output_dropped":5,"left":["sleep 9"],"snapshot":{"processes":[{"depth":1,"pid":9,"name":"sh","state":"S","#,
    r#""wchan":"do_wait","syscall":61,"rss":4096,"cpu":{"secs":0,"nanos":20000000},"threads":1,"files":3,"#,
    r#""open":["/tmp/a"],"stacks":"in f"}],"left_out":4},"died_before":{"worker":{"slot":"mail.1","generation":7},"ran":{"secs":1,"nanos":0},"how":"signal 11"},"#,
    r#""at":1700000000123}"#
);

#[test]
fn stored_format_of_failures_and_forensics_is_stable() {
    kept(&failure(), r#"{"group":"exit 1","message":"it returned 1","trace":"line 1"}"#);
    kept(&forensics(), FORENSICS);
    kept(
        &Forensics::default(),
        r#"{"worker":null,"ran":{"secs":0,"nanos":0},"exit":null,"signals":[],"output_dropped":0,"at":null}"#,
    );
}

#[test]
fn stored_format_of_history_is_stable() {
    let at = |what: Happened, text: &str| kept(&Entry { at: Millis(1_700_000_000_123), what }, text);
    at(
        Happened::Canceled { by: "uid 7".into(), reason: None },
        r#"{"at":1700000000123,"canceled":{"by":"uid 7"}}"#,
    );
    at(
        Happened::Retried { by: "uid 7".into(), from: JobState::Failed },
        r#"{"at":1700000000123,"retried":{"by":"uid 7","from":"failed"}}"#,
    );
    at(
        Happened::Edited { by: "uid 7".into(), what: "priority 5".into() },
        r#"{"at":1700000000123,"edited":{"by":"uid 7","what":"priority 5"}}"#,
    );
    at(
        Happened::advanced("a".into(), "b".into(), Some("{}")),
        r#"{"at":1700000000123,"advanced":{"from":"a","to":"b","result":"{}"}}"#,
    );
    at(
        Happened::Noted { what: "popped by host-1".into() },
        r#"{"at":1700000000123,"noted":{"what":"popped by host-1"}}"#,
    );
    let attempt = Attempt {
        attempt: 2,
        fence: Fence(12),
        started_at: Some(Millis(1_700_000_000_000)),
        instance: Some("here".into()),
        worker: Some(worker()),
        renewals: 1,
        renewed_at: Some(Millis(1_700_000_000_100)),
        state: JobState::Delayed,
        due_at: Some(Millis(1_700_000_001_000)),
        crashed: true,
        counts: Some(Count::UnknownClass),
        failure: Some(failure()),
        forensics: Some(forensics()),
    };
    let text = concat!(
        r#"{"at":1700000000123,"attempt":{"attempt":2,"fence":12,"started_at":1700000000000,"instance":"here","#,
        r#""worker":{"slot":"mail.1","generation":7},"renewals":1,"renewed_at":1700000000100,"state":"delayed","due_at":1700000001000,"#,
        r#""crashed":true,"counts":"unknown_class","failure":{"group":"exit 1","message":"it returned 1","#,
        r#""trace":"line 1"},"forensics":"#
    );
    at(Happened::Attempt(Box::new(attempt)), &format!("{text}{FORENSICS}}}}}"));
}
