//! Malformed or huge values: they are refused before any write, and stop no other job.

use crate::Scene;

impl Scene {
    /// `need`, held by `w`, and its dependents.
    fn needed_by(jids: &[&str]) -> Scene {
        let mut scene = Scene::new();
        scene.put("need", "q", &[]);
        for jid in jids {
            scene.put(jid, "q", &["depends", r#"["need"]"#]);
        }
        assert_eq!(scene.pop("1", "q", "w", 1), ["need"]);
        scene
    }

    fn state(&mut self, jid: &str) -> Option<String> {
        self.script.field(jid, "state")
    }
}

#[test]
fn malformed_dependent_does_not_stop_the_release_of_others() {
    let breaks: [(&[&str], &str); 4] = [
        (&["HDEL ql:j:b queue"], "depends"),
        (&["HSET ql:j:b scheduled soon"], "waiting"),
        (&["DEL ql:j:b-dependencies", "SET ql:j:b-dependencies text"], "depends"),
        (&["DEL ql:q:r-work", "HSET ql:j:b queue r", "SET ql:q:r-work text"], "depends"),
    ];
    for (lines, state) in breaks {
        let mut scene = Scene::needed_by(&["a", "b", "c"]);
        for line in lines {
            let _: redis::Value = scene.script.raw(line);
        }
        assert_eq!(scene.script.line::<String>("complete 2 need w q {}"), "complete");
        assert_eq!(scene.state("b").as_deref(), Some(state), "{lines:?}");
        let mut others = scene.pop("3", "q", "w", 5);
        others.retain(|jid| jid != "b");
        others.sort();
        assert_eq!(others, ["a", "c"], "{lines:?}");
        assert!(!scene.script.everything().contains_key("ql:j:need-dependents"));
    }
}

#[test]
fn completion_releases_thousands_of_dependents_except_malformed_ones() {
    let mut scene = Scene::needed_by(&[]);
    for jid in 0..2500 {
        let jid = format!("d{jid}");
        let _: String =
            scene.script.call(&["put", "0", "me", "z", &jid, "k", "{}", "0", "depends", r#"["need"]"#]);
    }
    for jid in (0..2500).step_by(500) {
        let _: i64 = scene.script.raw(&format!("HDEL ql:j:d{jid} queue"));
    }
    let _: String = scene.script.line("complete 2 need w q {}");
    for now in ["3", "4"] {
        assert_eq!(scene.pop(now, "idle", "w", 1), Vec::<String>::new());
    }
    let counts =
        ["ql:q:z-work", "ql:q:z-depends"].map(|key| scene.script.raw::<i64>(&format!("ZCARD {key}")));
    assert_eq!(counts, [2495, 5]);
    let kept = scene.script.everything();
    assert!(!kept.keys().any(|key| key.starts_with("ql:taskvisor:releas")));
}

#[test]
fn json_that_cannot_be_encoded_is_refused_and_changes_no_job() {
    let mut scene = Scene::new();
    scene.put("j", "q", &["tags", r#"["old"]"#]);
    let _: String = scene.script.line("recur 0 r r klass {} interval 60 0");
    scene.ears.heard();
    scene.refused(&[
        ("put 1 me q j klass {} 0 tags [1e999]", "Put(): Arg \"tags\" not JSON: [1e999]"),
        ("put 1 me q j klass {} 0 tags [\"a\",-1e999]", "Put(): Arg \"tags\" not JSON"),
        ("put 1 me q j klass {} 0 tags [nan]", "Put(): Arg \"tags\" not JSON: [nan]"),
        ("put 1 me q j klass {} 0 depends [1e999]", "Put(): Arg \"depends\" not JSON: [1e999]"),
        ("requeue 1 me q j klass {} 0 tags [1e999]", "Put(): Arg \"tags\" not JSON: [1e999]"),
        ("recur 1 s r klass {} interval 60 0 tags [1e999]", "Recur(): Arg \"tags\" not JSON: [1e999]"),
        (
            "log 1 j hi {\"x\":1e999}",
            "Log(): Arg \"data\" has too large a number, or goes too deep: {\"x\":1e999}",
        ),
    ]);
    let deep = |depth: usize| format!("log 1 j hi {}{}", "[".repeat(depth), "]".repeat(depth));
    scene.refused(&[(&deep(1000), "Log(): Arg \"data\" has too large a number, or goes too deep: [[")]);
    assert_eq!(scene.pop("2", "q", "w", 1), ["j"]);
}

#[test]
fn requeue_over_malformed_keys_keeps_the_new_dependencies() {
    let mut scene = Scene::new();
    scene.put("need", "q", &[]);
    scene.put("j", "q", &[]);
    for line in ["SET ql:j:j-dependencies text", "SET ql:j:need-dependents text", "SET ql:j:string text"] {
        let _: String = scene.script.raw(line);
    }
    let _: String = scene.script.line("put 1 me q j klass {} 0 depends [\"string\",\"need\"]");
    assert_eq!(scene.script.json("get 1 j")["dependencies"], serde_json::json!(["need"]));
    assert_eq!(scene.pop("2", "q", "w", 2), ["need"]);
    let _: String = scene.script.line("complete 3 need w q {}");
    assert_eq!(scene.pop("4", "q", "w", 2), ["j"]);
}

#[test]
fn malformed_fields_are_shown_as_empty_and_the_job_is_handed_out() {
    let mut scene = Scene::new();
    for jid in ["a", "b", "c"] {
        scene.put(jid, "q", &[]);
    }
    let _: i64 = scene.script.raw(r#"HSET ql:j:a tags [1e999] failure {"when":1e999}"#);
    let _: i64 = scene.script.raw(r#"RPUSH ql:j:b-history [1,"hi",{"x":1e999}]"#);
    let lines = ["DEL ql:j:c-history", "SET ql:j:c-history text", "SET ql:j:c-dependents text"];
    for line in lines.iter().chain(&["SET ql:j:c-dependencies text"]) {
        let _: redis::Value = scene.script.raw(line);
    }
    let shown = scene.script.json("multiget 1 a b c");
    assert_eq!((&shown[0]["tags"], &shown[0]["failure"]), (&serde_json::json!({}), &serde_json::json!({})));
    assert_eq!(shown[1]["history"][1], serde_json::json!({}));
    for name in ["history", "dependents", "dependencies"] {
        assert_eq!(shown[2][name], serde_json::json!({}), "{name}");
    }
    let _: i64 = scene.script.raw("DEL ql:j:c-history");
    assert_eq!(scene.pop("1", "q", "w", 5), ["c", "b", "a"]);
}

#[test]
fn retry_does_not_mistake_a_hold_for_a_failure_group() {
    let mut scene = Scene::new();
    scene.put("j", "q", &[]);
    scene.pop("1", "q", "w", 1);
    let text =
        "Retry(): \"hold\" and a number after a delay may be a group and its message: name delay, group";
    scene.ears.heard();
    scene.refused(&[
        ("retry 2 j q w 0 hold 1", text),
        ("retry 2 j q w hold 7", "Retry(): Job j has been given to another worker: w"),
        ("retry 2 j q w 0 hold why hold 7", "Retry(): Job j has been given to another worker: w"),
    ]);
    assert_eq!(scene.script.line::<i64>("retry 2 j q w 0 hold why hold 1"), 4);
}

#[test]
fn malformed_options_and_statistics_stop_no_job() {
    let mut scene = Scene::new();
    for jid in ["a", "b"] {
        scene.put(jid, "q", &["retries", "1"]);
    }
    let _: Option<String> = scene.script.line("config.set 0 stats-history 1e300");
    assert_eq!(scene.pop("1", "q", "w", 2), ["b", "a"]);
    let _: String = scene.script.line("fail 2 a w group why");
    assert!(scene.script.raw::<i64>("TTL ql:s:stats:0:q") > 86400 * 36000);
    let _: i64 = scene.script.raw("HSET ql:s:stats:0:q failures many failed 1.5");
    let _: String = scene.script.line("fail 3 b w group why");
    assert_eq!(scene.script.json("stats 3 q 0")["failed"], 1.5);
    assert_eq!(scene.script.line::<i64>("unfail 4 q group"), 2);
    assert_eq!(scene.pop("5", "q", "w", 2), ["b", "a"]);
}

impl Scene {
    /// Jobs from `j0` on that failed in this order; the last one is first in their group.
    fn failed(many: usize) -> Scene {
        let mut scene = Scene::new();
        let jids: Vec<String> = (0..many).map(|at| format!("j{at}")).collect();
        for jid in &jids {
            let _: String = scene.script.call(&["put", "0", "me", "q", jid, "klass", "{}", "0"]);
        }
        scene.pop("1", "q", "w", many);
        for jid in &jids {
            let _: String = scene.script.line(&format!("fail 1 {jid} w group why"));
        }
        let _: String = scene.script.raw("CONFIG RESETSTAT");
        scene
    }

    fn group(&mut self) -> Vec<String> {
        self.script.raw("LRANGE ql:f:group 0 -1")
    }

    /// Whether the server searched a list for a single job.
    fn has_searched(&mut self) -> bool {
        self.script.raw::<String>("INFO commandstats").contains("cmdstat_lrem:")
    }
}

#[test]
fn unfail_skips_malformed_jobs_and_requeues_the_others() {
    let mut scene = Scene::failed(6);
    let _: i64 = scene.script.raw("HDEL ql:j:j1 queue");
    for line in ["DEL ql:j:j2-history", "SET ql:j:j2-history text", "DEL ql:j:j3", "SET ql:j:j3 text"] {
        let _: redis::Value = scene.script.raw(line);
    }
    let _: String = scene.script.raw("SET ql:q:r-work text");
    // A job that cannot be requeued stays.
    assert_eq!(scene.script.line::<i64>("unfail 2 r group 1"), 0);
    assert_eq!((scene.group().len(), scene.state("j0").as_deref()), (6, Some("failed")));
    assert_eq!(scene.script.line::<i64>("unfail 2 q group 5"), 4);
    assert_eq!(scene.group().len(), 1);
    let mut jids = scene.pop("3", "q", "w", 9);
    jids.sort();
    assert_eq!((jids.len(), jids.contains(&"j2".into()), scene.has_searched()), (4, true, false));
}

#[test]
fn failed_job_with_missing_fields_can_be_canceled() {
    let mut scene = Scene::failed(3);
    let _: i64 = scene.script.raw("HDEL ql:j:j1 queue");
    let _: String = scene.script.raw("SET ql:j:j0-dependents text");
    let _: String = scene.script.raw("SET ql:j:string text");
    let jids: Vec<String> = scene.script.line("cancel 2 j0 string j1 j2");
    assert_eq!(jids.len(), 4);
    let kept = scene.script.everything();
    let left: Vec<&String> =
        kept.keys().filter(|key| key.starts_with("ql:j:") || key.contains('f')).collect();
    assert_eq!(left, ["ql:j:string"]);
}

#[test]
fn canceling_many_failed_jobs_empties_their_group_at_once() {
    let mut scene = Scene::failed(2500);
    let jids: Vec<String> = (0..2500).filter(|at| at % 100 != 7).map(|at| format!("j{at}")).collect();
    let args: Vec<&str> = ["cancel", "2"].into_iter().chain(jids.iter().map(String::as_str)).collect();
    let _: Vec<String> = scene.script.call(&args);
    let left: Vec<String> = (0..25).rev().map(|at| format!("j{}07", at)).collect();
    let left: Vec<String> = left.iter().map(|jid| jid.replace("j007", "j7")).collect();
    assert_eq!((scene.group(), scene.has_searched()), (left, false));
    let _: Vec<String> = scene.script.line("cancel 3 j7 j107");
    assert_eq!((scene.group().len(), scene.has_searched()), (23, true));
}

#[test]
fn dependency_that_is_too_deep_to_check_for_a_cycle_is_refused() {
    let mut scene = Scene::new();
    for jid in ["a", "b"] {
        scene.put(jid, "q", &[]);
    }
    scene.put("c", "q", &["depends", r#"["a"]"#]);
    let fill = "for i = 1, 20001 do redis.call('SADD', 'ql:j:b-dependencies', 'x' .. i) end";
    let _: redis::Value = scene.script.raw_call(&["EVAL", fill, "0"]);
    let depend_on = "taskvisor.depend_on 1 a {} 1 b";
    let refusal: Vec<String> = scene.script.line(depend_on);
    let why = "job 'a' cannot wait for these: more than 20000 jobs come before it and others wait for it";
    assert!(refusal[..2] == ["no", "refused"] && refusal[2].starts_with(why), "{refusal:?}");
    assert_eq!(scene.state("a").as_deref(), Some("waiting"));
    // A job without dependents cannot be part of a cycle.
    let _: Vec<String> = scene.script.line("cancel 2 c");
    assert_eq!(scene.script.line::<String>(depend_on), "depends");
    let circle: Vec<String> = scene.script.line("taskvisor.depend_on 1 a {} 1 a");
    assert_eq!(circle, ["no", "circle", "a", "a"]);
}

#[test]
fn dependents_of_an_earlier_job_with_the_same_id_are_released_with_the_later() {
    let mut scene = Scene::new();
    for (kind, many) in [("old", 2500), ("new", 1500)] {
        scene.put("need", "q", &[]);
        for at in 0..many {
            let jid = format!("{kind}{at}");
            let _: String =
                scene.script.call(&["put", "0", "me", "z", &jid, "k", "{}", "0", "depends", r#"["need"]"#]);
        }
        assert_eq!(scene.pop("1", "q", "w", 1), ["need"]);
        let _: String = scene.script.line("complete 2 need w q {}");
    }
    let left = |scene: &mut Scene| scene.script.raw::<i64>("SCARD ql:taskvisor:release:need");
    assert_eq!(left(&mut scene), 1000);
    scene.pop("3", "idle", "w", 1);
    assert_eq!((left(&mut scene), scene.script.raw::<i64>("ZCARD ql:q:z-work")), (0, 4000));
}

impl Scene {
    /// Puts a job as a supervisor does.
    fn put_ours(&mut self, now: u32, jid: &str, priority: &str) {
        let now = now.to_string();
        let job = [jid, "refuse", "q", "klass", "{}", priority, "0", "[]", "5", "0", "0"];
        let args = [&["taskvisor.put", &now, "", "1"], &job[..]].concat();
        assert_eq!(self.script.call::<Vec<String>>(&args), ["waiting"]);
    }
}

#[test]
fn job_canceled_by_any_client_leaves_no_keys() {
    let mut scene = Scene::new();
    scene.put_ours(1, "j", "0");
    assert_eq!(scene.script.raw::<Vec<String>>("ZRANGE ql:taskvisor:jobs 0 -1"), ["j"]);
    let _: Vec<String> = scene.script.line("cancel 2 j");
    assert!(!scene.script.everything().contains_key("ql:taskvisor:jobs"));
}

#[test]
fn unused_priorities_are_forgotten() {
    let mut scene = Scene::new();
    for at in 0..50 {
        scene.put_ours(1000 * (at / 5), &format!("j{at}"), &format!("{at}"));
    }
    // Priorities of the last minute are kept: jobs of the same moment are ordered by them.
    assert_eq!(scene.script.raw::<i64>("HLEN ql:taskvisor:order"), 5);
    assert_eq!(scene.pop("9999", "q", "w", 2), ["j49", "j48"]);
}
