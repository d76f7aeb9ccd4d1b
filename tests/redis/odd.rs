//! What is broken or out of all bounds: it is refused before anything is written, and stops no other job.

use crate::Scene;

impl Scene {
    /// `need`, held by `w`, and those that wait for it.
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
fn one_that_is_broken_keeps_no_other_from_what_it_waited_for() {
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
fn of_thousands_that_waited_all_but_the_broken_go_on() {
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
