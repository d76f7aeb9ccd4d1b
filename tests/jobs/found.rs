//! Finding jobs: failures since a time, by filter, by the beginning of an id.

use crate::sandbox::{Sandbox, Setting, is_root};

#[test]
fn failed_since_a_time_works_with_and_without_a_supervisor() {
    let sandbox = Sandbox::new(if is_root() { Setting::Root } else { Setting::Plain });
    let mut running = sandbox.start(&["-w", "1", "-q", "default", "-q", "mail"]);
    let old = sandbox.put(&["sh", "-c", "echo old >&2; exit 3"]);
    sandbox.run(&["job", "wait", &old]);
    let deploy = sandbox.job(&old)["ended_at_ms"].as_i64().unwrap() + 1;
    let deploy = jiff::Timestamp::from_millisecond(deploy).unwrap().to_string();
    let new = sandbox.ok(&["put", "-q", "mail", "--tag", "eu", "--", "sh", "-c", "kill -9 $$"]);
    let new = new.trim();
    sandbox.run(&["job", "wait", new]);
    let look = || {
        let groups = sandbox.ok(&["failed", "--since", &deploy]);
        assert!(groups.contains("signal 9") && !groups.contains("exit 3"), "{groups}");
        assert!(sandbox.ok(&["failed"]).contains("exit 3"));
        assert!(sandbox.ok(&["failed", "--queue", "default"]).contains("exit 3"));
        assert!(!sandbox.ok(&["failed", "--queue", "default", "--class", "exec"]).contains("signal 9"));
        let list = sandbox.ok(&["job", "list", "--state", "failed", "--since", &deploy, "--tags"]);
        let line = list.lines().nth(1).unwrap_or_default();
        assert!(line.starts_with(new), "a pipe gets ids whole: {line}");
        assert!(line.contains("sh -c kill -9 $$") && line.contains("KILL  eu"), "{line}");
        assert_eq!(list.lines().count(), 2, "{list}");
        let list = sandbox.ok(&["job", "list", "--until", &deploy, "--sort", "memory", "-n", "1"]);
        assert!(
            list.contains("MEMORY") && list.contains("sh -c echo old") && list.contains("  3  "),
            "{list}"
        );
    };
    look();
    // A job is found by the beginning of its id, and by nothing else.
    assert_eq!(sandbox.json(&["job", "show", &new[..20], "--json"])["id"], new);
    assert_eq!(sandbox.ok(&["job", "tag", &new[..20], "add", "x"]).trim(), format!("{new} eu x"));
    let (code, said) = sandbox.refused(&["job", "show", &new[..6]]);
    assert!(code == 2 && said.contains("several jobs") && said.contains(&old), "{code} {said}");
    assert_eq!(sandbox.refused(&["job", "show", "ffffff"]).0, 7);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
    look();
    // An unknown name is an error, not an empty list.
    for named in [["--queue", "x"], ["--class", "x"], ["--tag", "y"], ["--group", "x"]] {
        assert_eq!(sandbox.refused(&["job", "list", named[0], named[1]]).0, 7, "{named:?}");
    }
    for of_class in [&["failed"][..], &["job", "stats"], &["job", "retry", "--failed"], &["job", "cancel"]] {
        assert_eq!(sandbox.refused(&[of_class, &["--class", "x"]].concat()).0, 7, "{of_class:?}");
    }
    assert_eq!(sandbox.refused(&["job", "discard", "--failed", "--group", "x"]).0, 7);
    assert_eq!(sandbox.ok(&["job", "list", "--class", "exec", "--state", "held"]), "");
    assert_eq!(sandbox.ok(&["job", "retry", "--held", "--class", "exec"]), "0 jobs retried\n");
}
