//! Malformed keys of queues and jobs, left by other programs, do not stop a supervisor's fetches of other jobs.

use redis::Value;

use crate::Scene;

/// A fetch for a number of slots, with its queues and class filter.
struct Fetch<'a> {
    now: &'a str,
    queues: &'a [&'a str],
    only: &'a [&'a str],
    slots: usize,
}

impl Default for Fetch<'_> {
    fn default() -> Self {
        Fetch { now: "10", queues: &["q"], only: &[], slots: 5 }
    }
}

/// The fields of a fetched job, and the description of a malformed key.
type Given = Vec<Value>;
type Odd = (String, String, String, String);

/// The answer of a fetch: when the next job is due, the jids, and the malformed keys.
struct Answer {
    due: Option<f64>,
    jids: Vec<String>,
    odd: Vec<String>,
}

impl Fetch<'_> {
    fn of(self, scene: &mut Scene) -> Answer {
        let list = |names: &[&str]| -> Vec<String> {
            [vec![names.len().to_string()], names.iter().map(|name| (*name).to_owned()).collect()].concat()
        };
        let mut args: Vec<String> =
            ["taskvisor.fetch", self.now, "me", "f-1", "0", "60", "order"].map(String::from).to_vec();
        args.extend([list(self.only), list(&[]), list(self.queues)].concat());
        args.push(self.slots.to_string());
        args.extend((0..self.slots).flat_map(|slot| [format!("w{slot}"), "{}".into()]));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let (due, jobs, odd, _): (Option<f64>, Vec<Given>, Vec<Odd>, i64) = scene.script.call(&args);
        let jid = |job: &Given| redis::from_redis_value(job[0].clone()).unwrap();
        Answer {
            due,
            jids: jobs.iter().map(jid).collect(),
            odd: odd.into_iter().map(|(key, ..)| key).collect(),
        }
    }
}

#[test]
fn fetch_returns_more_jobs_than_one_lua_call_can_take() {
    let mut scene = Scene::new();
    let fill = "for i = 1, 9000 do local jid = 'j' .. i \
                redis.call('HSET', 'ql:j:' .. jid, 'jid', jid, 'klass', 'k', 'state', 'waiting', 'queue', 'q', \
                'data', '{}', 'time', '0', 'retries', '5', 'remaining', '5') \
                redis.call('ZADD', 'ql:q:q-work', 1, jid) end";
    let _: Value = scene.script.raw_call(&["EVAL", fill, "0"]);
    assert_eq!(Fetch { slots: 4500, ..Fetch::default() }.of(&mut scene).jids.len(), 4500);
    assert_eq!(scene.script.raw::<i64>("ZCARD ql:q:q-locks"), 4500);
    assert_eq!(scene.script.raw::<i64>("SCARD ql:taskvisor:held:me"), 4500);
    assert_eq!(scene.pop("11", "q", "other", 4500).len(), 4500);
    assert_eq!(scene.script.raw::<i64>("ZCARD ql:q:q-locks"), 9000);
    assert_eq!(scene.script.raw::<i64>("ZCARD ql:q:q-work"), 0);
}

#[test]
fn fetch_ignores_a_job_in_a_list_of_a_state_it_is_not_in() {
    let mut scene = Scene::new();
    ["runs", "done"].iter().for_each(|jid| scene.put(jid, "q", &[]));
    assert_eq!(scene.pop("1", "q", "w", 2).len(), 2);
    scene.put("here", "q", &[]);
    let _: String = scene.script.line("complete 2 done w q {}");
    for (list, jid) in
        [("q2-work", "runs"), ("q2-scheduled", "runs"), ("q2-work", "done"), ("q2-work", "here")]
    {
        let _: i64 = scene.script.raw(&format!("ZADD ql:q:{list} 1 {jid}"));
    }
    let _: i64 = scene.script.raw("ZADD ql:q:q-work 1 runs");
    let both = Fetch { queues: &["q2", "q"], ..Fetch::default() };
    assert_eq!(both.of(&mut scene).jids, ["here"]);
    assert_eq!(scene.script.field("runs", "state").as_deref(), Some("running"));
    assert_eq!(scene.script.field("runs", "worker").as_deref(), Some("w"));
    assert_eq!(scene.script.raw::<f64>("ZSCORE ql:q:q-locks runs"), 61.0);
    for list in ["q2-work", "q2-scheduled", "q-work"] {
        assert_eq!(scene.script.raw::<i64>(&format!("ZCARD ql:q:{list}")), 0, "{list}");
    }
}

#[test]
fn running_job_without_a_lock_is_fetched_again() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    assert_eq!(scene.pop("1", "q", "w", 1), ["j"]);
    let _: i64 = scene.script.raw("ZREM ql:q:q-locks j");
    let _: i64 = scene.script.raw("ZADD ql:q:q-work 1 j");
    assert_eq!(Fetch::default().of(&mut scene).jids, ["j"]);
}

#[test]
fn lock_in_another_queue_does_not_end_a_lease() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    assert_eq!(Fetch::default().of(&mut scene).jids, ["j"]);
    let hold = scene.script.field("j", "hold");
    for now in ["20", "40"] {
        let _: i64 = scene.script.raw("ZADD ql:q:other-locks 1 j");
        let of_other = Fetch { now, queues: &["other", "q"], ..Fetch::default() };
        assert!(of_other.of(&mut scene).jids.is_empty());
        let _: i64 = scene.script.raw("ZADD ql:q:other-locks 1 j");
        assert!(scene.pop(now, "other", "w", 1).is_empty());
        assert_eq!(scene.script.raw::<i64>("ZCARD ql:q:other-locks"), 0);
    }
    assert_eq!(scene.script.field("j", "hold"), hold);
    assert_eq!(scene.script.field("j", "state").as_deref(), Some("running"));
    assert_eq!(scene.script.field("j", "interrupted"), None);
}

#[test]
fn malformed_key_of_a_queue_stops_only_its_own_function() {
    let spoil = [
        ("q-work", "SET ql:q:q-work what"),
        ("q-locks", "SET ql:q:q-locks what"),
        ("q-scheduled", "SET ql:q:q-scheduled what"),
        ("q-recur", "SET ql:q:q-recur what"),
        ("a schedule", "ZADD ql:q:q-recur 1 x"),
        ("a lock", "ZADD ql:q:q-locks -inf x"),
        ("a bound", "HSET ql:config q-max-concurrency 0.5"),
    ];
    for (what, how) in spoil {
        let mut scene = Scene::new();
        ["other", "q"].iter().for_each(|queue| scene.put(&format!("of-{queue}"), queue, &[]));
        if what == "q-work" {
            let _: i64 = scene.script.raw("DEL ql:q:q-work");
        }
        let _: Value = scene.script.raw(how);
        let _: Value = scene.script.raw("SET ql:r:x what");
        let answer = Fetch { queues: &["q", "other"], ..Fetch::default() }.of(&mut scene);
        let stopped = ["q-work", "q-locks"].contains(&what);
        let expected = if stopped { &["of-other"][..] } else { &["of-q", "of-other"][..] };
        assert_eq!(answer.jids, expected, "{what}");
        assert_eq!(answer.odd.is_empty(), ["a lock", "a bound"].contains(&what), "{what}: {:?}", answer.odd);
    }
}

#[test]
fn overdue_recurring_job_puts_no_more_jobs_than_can_run() {
    let mut scene = Scene::new();
    let _: Value = scene.script.line("recur 0 q r k {} interval 1 0");
    let _: Value = scene.script.line("config.set 0 q-max-concurrency 2");
    let full = Fetch { now: "1000", ..Fetch::default() }.of(&mut scene);
    assert_eq!(full.jids.len(), 2);
    let after = Fetch { now: "1001", ..Fetch::default() }.of(&mut scene);
    assert!(after.jids.is_empty() && after.due > Some(1001.0), "nothing to hurry for: {:?}", after.due);
    assert_eq!(scene.script.raw::<i64>("ZCARD ql:q:q-work"), 0);
}

#[test]
fn ancient_schedule_causes_no_endless_wake_ups() {
    let mut scene = Scene::new();
    let _: Value = scene.script.raw("ZADD ql:q:q-recur -3000000000 r");
    let answer = Fetch::default().of(&mut scene);
    assert_eq!(answer.due, None);
}

#[test]
fn job_behind_30000_jobs_of_other_classes_is_fetched_eventually() {
    let mut scene = Scene::new();
    let fill = "for i = 1, 30000 do local jid = 'j' .. i \
                redis.call('HSET', 'ql:j:' .. jid, 'jid', jid, 'klass', 'common', 'state', 'waiting', 'queue', 'q') \
                redis.call('ZADD', 'ql:q:q-work', 1, jid) end";
    let _: Value = scene.script.raw_call(&["EVAL", fill, "0"]);
    scene.put("j", "q", &["priority", "-1"]);
    let mut looks = 0;
    let found = loop {
        let answer = Fetch { only: &["klass"], ..Fetch::default() }.of(&mut scene);
        looks += 1;
        if !answer.jids.is_empty() {
            break answer.jids;
        }
        assert_eq!(answer.due, Some(11.0), "it goes on in a second");
        assert!(looks < 10);
    };
    assert_eq!((found, looks), (vec!["j".to_owned()], 6));
}

#[test]
fn full_redis_accepts_verdicts_but_no_new_jobs() {
    let mut scene = Scene::new();
    ["one", "two", "three"].iter().for_each(|jid| scene.put(jid, "q", &[]));
    let _: Value = scene.script.raw("CONFIG SET maxmemory 1");
    let refused = scene.script.refusal(&["put", "2", "me", "q", "j", "klass", "{}", "0"]);
    assert!(refused.contains("OOM"), "{refused}");
    let jids = Fetch { slots: 3, ..Fetch::default() }.of(&mut scene).jids;
    assert_eq!(jids.len(), 3);
    for (jid, (verdict, state)) in
        jids.iter().zip([("complete", "complete"), ("release", "waiting"), ("fail", "failed")])
    {
        let hold = scene.script.field(jid, "hold").unwrap();
        let rest: &[&str] = match verdict {
            "complete" => &[""],
            "release" => &["0", ""],
            _ => &["0", r#"{"group":"g","message":"m"}"#, r#"{"group":"g","message":"m"}"#, "g", "m"],
        };
        let args =
            [&["taskvisor.settle", "12", "1", jid, &hold, verdict, "0", "", "", "", "", ""], rest].concat();
        let answers: Vec<String> = scene.script.call(&args);
        assert_ne!(answers, ["not_ours"], "{verdict}");
        assert_eq!(scene.script.field(jid, "state").as_deref(), Some(state), "{verdict}");
    }
}

#[test]
fn requeued_job_gets_a_new_hold_id() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    assert_eq!(scene.pop("1.25", "q", "w", 1), ["j"]);
    let first = scene.script.field("j", "hold").unwrap();
    let _: Value = scene.script.line("cancel 2 j");
    scene.put("j", "q", &[]);
    assert_eq!(scene.pop("3.5", "q", "w", 1), ["j"]);
    let refused = scene.script.refusal(&["complete", "4", "j", "w", "q", "{}", "hold", &first]);
    assert!(refused.contains("has been handed out to another worker"), "{refused}");
}
