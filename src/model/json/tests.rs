//! Samples of the published JSON: existing clients read and write it, so it must not change.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{
    Attempt, Bytes, Count, Entry, Exec, Exit, ExitStatus, Failure, Fence, Forensics, Happened, JobRecord,
    JobState, LatestJob, Millis, Need, NewJob, Overlap, Pause, Payload, Progress, PublishedEvent,
    QueueCounts, Recurring, RecurringRecord, Retry, Schedule, Signal, SignalSent, Today, Usage, What,
    WorkerName,
};

const WHAT_TO_DO: &str = "this is published: clients read and write it. Rename the field in Rust as you like, and give it \
                          the public name by #[serde(rename)]; a new field has a name of its own and may be left out";

/// Asserts that a value is written as this text and read back unchanged.
#[track_caller]
fn published<T: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug>(value: &T, text: &str) {
    let text = text.replace("\n", "");
    assert_eq!(serde_json::to_string(value).unwrap(), text, "{WHAT_TO_DO}");
    assert_eq!(&serde_json::from_str::<T>(&text).unwrap(), value, "{WHAT_TO_DO}");
}

const MOMENT: Millis = Millis(1_700_000_000_123);

fn exec() -> Exec {
    Exec {
        argv: vec!["sh".into(), "-c".into()],
        cwd: "/home/ada".into(),
        umask: 0o22,
        stdin: Bytes(b"\xff\n".to_vec()),
    }
}

fn worker() -> WorkerName {
    "mail.1#7".parse().unwrap()
}

fn forensics() -> Forensics {
    let usage = Usage { user: Duration::from_millis(5), system: Duration::from_millis(7), max_rss: 1 << 20 };
    let exit = Exit {
        status: ExitStatus::Signal { signal: 9, core: false },
        usage,
        left_behind: 2,
        oom: false,
        oom_at_bound: false,
        proof: Duration::from_micros(1500),
    };
    let after = Duration::from_secs(90);
    Forensics {
        worker: Some(worker()),
        ran: Duration::from_millis(90_250),
        exit: Some(exit),
        signals: vec![SignalSent { after, signal: Signal::Kill, why: "time limit".into() }],
        stderr_tail: "oh\n".into(),
        at: Some(MOMENT),
        ..Forensics::default()
    }
}

const FORENSICS: &str = r#"{"worker":{"slot":"mail.1","generation":7},"ran":90.25,
"exit":{"status":{"signal":9},"usage":{"user":0.005,"system":0.007,"max_rss":1048576},"left_behind":2,"oom":false,
"oom_at_bound":false,"proof":0.0015},"signals":[{"after":90.0,"signal":"KILL","why":"time limit"}],
"stderr_tail":"oh\n","output_dropped":0,"ended_at":"2023-11-14T22:13:20.123Z","ended_at_ms":1700000000123}"#;

fn shown() -> JobRecord {
    let text = r#"{"id":"j1","queue":"mail","class":"mail.Send","state":"failed","priority":-1,"tags":["a"],
        "attempt":2,"crashes":1,"interruptions":0,"put_at_ms":1700000000123,"fence":12}"#;
    let job: JobRecord = serde_json::from_str(text).unwrap();
    let failure = Failure { group: "exit 1".into(), message: "it returned 1".into(), trace: None };
    let attempt = Attempt {
        attempt: 1,
        fence: Fence(11),
        started_at: Some(MOMENT),
        instance: None,
        worker: None,
        renewals: 0,
        renewed_at: None,
        state: JobState::Delayed,
        due_at: Some(MOMENT),
        crashed: false,
        counts: Some(Count::UnknownClass),
        failure: Some(failure.clone()),
        forensics: None,
    };
    let at = |what| Entry { at: MOMENT, what };
    JobRecord {
        payload: Some(Payload::Data(r#"{"n":123456789012345678901234567890,"x":1.50}"#.into())),
        needs: vec![Need { job: "n1".into(), state: JobState::Held }],
        needed_by: vec!["d1".into()],
        retry: Some(Retry { retries: 2, delay: Duration::from_millis(1500), cap: Duration::from_secs(900) }),
        time_limit: Some(Duration::from_secs(90)),
        started_at: Some(MOMENT),
        worker: Some(worker()),
        progress: Some(Progress { fraction: Some(0.5), message: None }),
        result: Some("10000000000000000000000000000001".into()),
        failure: Some(failure),
        forensics: Some(forensics()),
        history: vec![
            at(Happened::Attempt(Box::new(attempt))),
            at(Happened::Canceled { by: "uid 7".into(), reason: None }),
            at(Happened::Retried { by: "uid 7".into(), from: JobState::Canceled }),
            at(Happened::Edited { by: "uid 7".into(), what: "priority -1".into() }),
            at(Happened::advanced("in".into(), "mail".into(), Some("{\"big\":1e400}"))),
            at(Happened::Noted { what: "popped".into() }),
        ],
        ..job
    }
}

#[test]
fn json_of_a_job_is_stable() {
    let at = r#""at":"2023-11-14T22:13:20.123Z","at_ms":1700000000123"#;
    let text = r#"{"id":"j1","queue":"mail","class":"mail.Send","state":"failed",
"data":{"n":123456789012345678901234567890,"x":1.50},"priority":-1,"tags":["a"],"tracked":false,
"depends":[{"job":"n1","state":"held"}],"dependents":["d1"],"attempt":2,"retries":2,"retry_delay":1.5,
"retry_cap":900.0,"time_limit":90.0,"crashes":1,"interruptions":0,"unknown_class":0,
"put_at":"2023-11-14T22:13:20.123Z","put_at_ms":1700000000123,
"started_at":"2023-11-14T22:13:20.123Z","started_at_ms":1700000000123,
"worker":{"slot":"mail.1","generation":7},"fence":12,"renewals":0,"progress":{"fraction":0.5},
"result":10000000000000000000000000000001,"failure":{"group":"exit 1","message":"it returned 1"},
"forensics":FORENSICS,"history":[
{AT,"kind":"attempt","attempt":{"attempt":1,"fence":11,"started_at":"2023-11-14T22:13:20.123Z",
"started_at_ms":1700000000123,"renewals":0,"state":"delayed","due_at":"2023-11-14T22:13:20.123Z",
"due_at_ms":1700000000123,"crashed":false,"unspent":"unknown_class",
"failure":{"group":"exit 1","message":"it returned 1"}}},
{AT,"kind":"canceled","by":"uid 7"},
{AT,"kind":"retried","by":"uid 7","from_state":"canceled"},
{AT,"kind":"edited","by":"uid 7","what":"priority -1"},
{AT,"kind":"advanced","from_queue":"in","to_queue":"mail","result":{"big":1e400}},
{AT,"kind":"noted","what":"popped"}]}"#;
    published(&shown(), &text.replace("FORENSICS", FORENSICS).replace("AT", at));
}

#[test]
fn data_that_is_no_json_has_its_own_field() {
    let of = |payload: Payload| {
        let json =
            serde_json::to_value(JobRecord { payload: Some(payload), history: vec![], ..shown() }).unwrap();
        ["data", "raw", "exec"].map(|name| json.get(name).map(|value| value.to_string()))
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(of(Payload::Data("null".into())), [some("null"), None, None]);
    assert_eq!(of(Payload::Data("hello".into())), [None, some("\"hello\""), None]);
    assert_eq!(of(Payload::Data(Bytes(vec![0xff]))), [None, some("{\"b64\":\"/w==\"}"), None]);
    let program = r#"{"argv":["sh","-c"],"cwd":"/home/ada","stdin":{"b64":"/wo="},"umask":"022"}"#;
    assert_eq!(of(Payload::Exec(exec())), [None, None, some(program)]);
    // A newline between two tokens would end the line.
    let lines = JobRecord { payload: Some(Payload::Data("{\n \"a\":\r\n1}".into())), ..shown() };
    let text = serde_json::to_string(&lines).unwrap();
    assert!(text.contains("\"data\":{  \"a\":  1}") && !text.contains(['\n', '\r']), "{text}");
    let nothing = JobRecord { payload: Some(Payload::Data("null".into())), ..shown() };
    let read: JobRecord = serde_json::from_str(&serde_json::to_string(&nothing).unwrap()).unwrap();
    assert_eq!(read, nothing);
}

#[test]
fn json_of_a_put_is_stable() {
    let job = NewJob {
        id: Some("j1".into()),
        depends: vec!["n1".into()],
        tags: vec!["a".into()],
        retry: Some(Retry::CLASS),
        time_limit: Some(Duration::from_millis(500)),
        delay: Duration::from_secs(10),
        expires: Some(Duration::from_secs(60)),
        ..NewJob::new("mail".into(), "mail.Send".into(), Payload::Data("[1.0, 2]".into()))
    };
    published(
        &job,
        r#"{"id":"j1","queue":"mail","class":"mail.Send","data":[1.0, 2],"priority":0,"delay":10.0,"expires":60.0,"depends":["n1"],
"tags":["a"],"retries":5,"retry_delay":1.0,"retry_cap":900.0,"time_limit":0.5}"#,
    );
    let program = NewJob::new("q".into(), "exec".into(), Payload::Exec(exec()));
    published(
        &program,
        r#"{"queue":"q","class":"exec","exec":{"argv":["sh","-c"],"cwd":"/home/ada","umask":"022","stdin":{"b64":"/wo="}},
"priority":0}"#,
    );
    let raw = NewJob::new("q".into(), "c".into(), Payload::Data("no json".into()));
    published(&raw, r#"{"queue":"q","class":"c","raw":"no json","priority":0}"#);
}

fn put(more: &str) -> Result<NewJob, String> {
    let text = format!(r#"{{"queue":"q","class":"c"{more}}}"#);
    serde_json::from_str(&text).map_err(|error| error.to_string())
}

#[test]
fn omitted_fields_of_a_put_have_defaults() {
    assert_eq!(put("").unwrap(), NewJob::new("q".into(), "c".into(), Payload::Data("null".into())));
    assert_eq!(put(",\"delay\":0.25").unwrap().delay, Duration::from_millis(250));
    assert_eq!(put(",\"retries\":2").unwrap().retry, Some(Retry { retries: 2, ..Retry::CLASS }));
    let waits = Retry { delay: Duration::from_secs(3), ..Retry::CLASS };
    assert_eq!(put(",\"retry_delay\":3").unwrap().retry, Some(waits));
    let exec = r#","exec":{"argv":["a"],"cwd":"/","umask":"0022"},"retry_delay":3"#;
    assert_eq!(put(exec).unwrap().retry, Some(Retry { retries: 0, ..waits }));
    let digits = "123456789012345678901234567890.10";
    assert_eq!(put(&format!(",\"data\":{digits}")).unwrap().payload, Payload::Data(digits.into()));
}

#[test]
fn invalid_put_is_refused_with_the_reason() {
    for (more, why) in [
        (",\"data\":1,\"raw\":\"1\"", "a job carries one of data, raw and exec"),
        (",\"payload\":{\"data\":\"1\"}", "unknown field `payload`"),
        (",\"delay\":-1", "-1 is no duration: it is a number of seconds, 0 or more"),
        (",\"delay\":1e300", "1e300 is no duration: it is a number of seconds, 0 or more"),
        (",\"delay\":{\"secs\":1,\"nanos\":0}", "invalid type: map, expected f64"),
        (",\"time_limit\":1e300", "is no duration"),
        (
            ",\"exec\":{\"argv\":[\"a\"],\"cwd\":\"/\",\"umask\":18}",
            "invalid type: integer `18`, expected a string",
        ),
        (",\"exec\":{\"argv\":[\"a\"],\"cwd\":\"/\",\"umask\":\"+22\"}", "'+22' is no umask"),
        (",\"exec\":{\"argv\":[\"a\"],\"cwd\":\"/\",\"umask\":\"1777\"}", "from \"000\" to \"777\""),
        (",\"exec\":[[\"a\"],\"/\",\"022\"]", "expected an object"),
    ] {
        let said = put(more).unwrap_err();
        assert!(said.contains(why), "{more}: {said}");
    }
}

#[test]
fn json_of_a_recurring_job_is_stable() {
    let every = Schedule::Every { interval: Duration::from_secs(60), offset: Duration::from_millis(1500) };
    let recurring = Recurring {
        name: "nightly".into(),
        schedule: every,
        overlap: Overlap::Allow,
        catch_up: Duration::from_secs(3600),
        backlog: 3,
        job: NewJob::new("q".into(), "c".into(), Payload::Data("1".into())),
    };
    let record = RecurringRecord {
        recurring,
        put_at: MOMENT,
        put_by: "uid 7".into(),
        next_at: Some(MOMENT),
        then_at: vec![MOMENT, Millis(0)],
        count: 4,
        skipped: 1,
        missed_at: None,
        stuck: None,
        latest: Some(LatestJob { id: "nightly-4".into(), state: JobState::Running, at: MOMENT }),
        paused: Some(Pause { since: MOMENT, by: "uid 7".into(), reason: None }),
    };
    published(
        &record,
        r#"{"recurring":{"name":"nightly","schedule":{"every":{"interval":60.0,"offset":1.5}},"overlap":"allow",
"catch_up":3600.0,"backlog":3,"job":{"queue":"q","class":"c","data":1,"priority":0}},
"put_at":"2023-11-14T22:13:20.123Z","put_at_ms":1700000000123,"put_by":"uid 7",
"next_at":"2023-11-14T22:13:20.123Z","next_at_ms":1700000000123,
"then_at":["2023-11-14T22:13:20.123Z","1970-01-01T00:00:00.000Z"],"then_at_ms":[1700000000123,0],
"count":4,"skipped":1,
"latest":{"id":"nightly-4","state":"running","due_at":"2023-11-14T22:13:20.123Z","due_at_ms":1700000000123},
"paused":{"since":"2023-11-14T22:13:20.123Z","since_ms":1700000000123,"by":"uid 7","reason":null}}"#,
    );
}

#[test]
fn json_of_queues_and_events_is_stable() {
    let counts = QueueCounts {
        jobs: BTreeMap::from([(JobState::Waiting, 3)]),
        oldest_waiting: Some(MOMENT),
        today: Today { retries: 2, ..Today::default() },
        ..QueueCounts::default()
    };
    published(
        &counts,
        r#"{"jobs":{"waiting":3},"oldest_waiting_at":"2023-11-14T22:13:20.123Z","oldest_waiting_at_ms":1700000000123,
"paused":null,"today":{"wait":{"count":0,"seconds":0.0},"run":{"count":0,"seconds":0.0},"retries":2,"failures":0,
"failed":0}}"#,
    );
    let event =
        PublishedEvent { n: 7, job: Some("j1".into()), ..PublishedEvent::new(What::LockLost, MOMENT) };
    published(
        &event,
        r#"{"n":7,"at":"2023-11-14T22:13:20.123Z","at_ms":1700000000123,"kind":"lock_lost","job":"j1"}"#,
    );
}
