//! Pauses of the host, one after the other: none counts, whatever their number.

use std::fs;
use std::time::Duration;

use crate::sandbox::{Sandbox, Setting, alive, is_up, kill, stays, wait_until};

/// From one pause to the next; longer than the lease of 4 s.
const LASTS: Duration = Duration::from_secs(5);

#[test]
fn five_pauses_of_the_host_interrupt_no_job_of_the_embedded_store() {
    let sandbox = Sandbox::new(Setting::Root);
    let _running = sandbox.start(&["-w", "4", "--lease", "4s", "--grace", "100ms"]);
    wait_until("all slots are up", || is_up(&sandbox.status()));
    let put = |name: &str| {
        let script = format!("echo $$ >>'{name}'; until [ -e go ]; do sleep 0.02; done");
        let id = sandbox.put(&["sh", "-c", &script]);
        let runs = || fs::read_to_string(sandbox.work(name)).unwrap_or_default();
        wait_until("it runs beside the others", || runs().lines().count() == 1);
        (id, runs().trim().parse::<i32>().unwrap(), name.to_owned())
    };
    let mut jobs = vec![put("first"), put("second")];
    for pause in 1..=5 {
        let still: Vec<i32> = sandbox.processes().iter().map(|seen| seen.pid).collect();
        still.iter().for_each(|pid| kill(*pid, "STOP"));
        stays(LASTS, "all stands still", || true);
        still.iter().for_each(|pid| kill(*pid, "CONT"));
        wait_until("the log says so", || {
            sandbox.stderr().matches("this process did not run for up to").count() == pause
        });
        // A suspect would run alone.
        if pause == 2 || pause == 5 {
            jobs.push(put(&format!("after {pause}")));
        }
    }
    stays(LASTS, "nobody ends them for what is over", || jobs.iter().all(|(_, pid, _)| alive(*pid)));
    fs::write(sandbox.work("go"), "").unwrap();
    for (id, _, name) in &jobs {
        wait_until("it is complete", || sandbox.state(id) == "complete");
        let job = sandbox.job(id);
        assert_eq!((&job["attempt"], &job["interruptions"]), (&1.into(), &0.into()), "{job}");
        assert_eq!(fs::read_to_string(sandbox.work(name)).unwrap().lines().count(), 1, "it ran once");
    }
    sandbox.wait_healthy();
}
