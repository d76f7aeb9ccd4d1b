//! Processes that do not run for a while: the whole service, as on a paused machine, or the supervisor alone.

use super::*;

const SETTINGS: [&str; 8] = ["-w", "2", "--lease", "5s", "--grace", "200ms", "--time-limit", "60s"];

/// For longer than a lease and its grace.
fn stays_stopped(supervisor: i32) {
    let is_stopped =
        || fs::read_to_string(format!("/proc/{supervisor}/stat")).is_ok_and(|stat| stat.contains(") T "));
    wait_until("it has stopped", is_stopped);
    stays(Duration::from_secs(7), "the supervisor is stopped", is_stopped);
}

#[test]
fn pause_of_the_whole_service_costs_no_job_anything() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["option", "set", "grace", "1s"]);
    let mut running = sandbox.start(&SETTINGS);
    let jid = put_until_go(&sandbox, "true");
    for first in [0, 1] {
        let [keeper, supervisor] = both(&sandbox);
        let jobs: Vec<i32> = sandbox.job_processes().iter().map(|seen| seen.pid).collect();
        let mut all = [&[keeper, supervisor][..], &jobs].concat();
        all.iter().for_each(|pid| kill(*pid, "STOP"));
        stays_stopped(supervisor);
        all.swap(0, first);
        all.iter().for_each(|pid| kill(*pid, "CONT"));
        assert_works(&sandbox);
        assert_eq!(sandbox.state(&jid), "running");
    }
    go(&sandbox);
    assert_completes(&sandbox, &jid);
    assert!(sandbox.stderr().contains("this process did not run for up to"), "{}", sandbox.stderr());
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn program_that_ends_while_the_supervisor_alone_is_stopped_is_complete() {
    let sandbox = Sandbox::new(Setting::Plain);
    sandbox.ok(&["option", "set", "grace", "1s"]);
    let _running = sandbox.start(&SETTINGS);
    let jid = put_until_go(&sandbox, "echo ran >> runs");
    let [_, supervisor] = both(&sandbox);
    kill(supervisor, "STOP");
    go(&sandbox);
    wait_until("the program has ended", || sandbox.work("runs").exists());
    stays_stopped(supervisor);
    kill(supervisor, "CONT");
    assert_completes(&sandbox, &jid);
    assert_eq!(fs::read_to_string(sandbox.work("runs")).expect("runs"), "ran\n");
}
