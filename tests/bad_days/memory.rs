//! A container of 100 MB, as far as the supervisor sees it: a cgroup with that limit around all of the service.

use super::*;

/// Takes memory without end; the `ulimit` stops it where no limit of the cgroup does.
const HOG: &str = "ulimit -v 2000000; exec tail /dev/zero";

#[test]
fn jobs_that_take_all_memory_of_the_container_die_and_the_supervisor_does_not() {
    if !is_root() {
        return missing("root");
    }
    // Where cgroup v1 has no memory controller, `tests/systemd.rs` has the same in a unit.
    let Some(cell) = Cell::new("memory", "container") else { return missing("memory of cgroup v1") };
    cell.set("memory.limit_in_bytes", "100M");
    let sandbox = Sandbox::new(Setting::Root);
    let enter = format!("echo $$ >{}; exec \"$@\"", cell.0.join("cgroup.procs").display());
    let mut running = sandbox.start_under(&["sh", "-c", &enter, "sh"], &["-w", "3"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let both_before = both(&sandbox);
    let innocent = put_until_go(&sandbox, "true");
    for _ in 0..3 {
        let hog = sandbox.ok(&["put", "--retries", "0", "--", "sh", "-c", HOG]);
        let mut job = Value::Null;
        wait_within(Duration::from_secs(60), "it is killed", || {
            job = sandbox.job(hog.trim());
            job["state"] == "failed"
        });
        assert!(job["failure"]["message"].as_str().expect("text").contains("signal 9"), "{job}");
        assert_works(&sandbox);
    }
    let kills = fs::read_to_string(cell.0.join("memory.oom_control")).expect("a file");
    assert!(!kills.contains("oom_kill 0\n"), "{kills}");
    assert_eq!(both(&sandbox), both_before);
    go(&sandbox);
    assert_completes(&sandbox, &innocent);
    sandbox.wait_healthy();
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
}
