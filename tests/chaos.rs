//! Kills at the worst moments: whichever process dies, no job process survives and no job is lost.

#[path = "support/sandbox.rs"]
mod sandbox;

use sandbox::{Sandbox, Setting, alive, in_all_settings, kill, wait_until};

/// A job that leaves a trace of each of its processes: itself, a child, and a grandchild in a session of its own.
fn family(sandbox: &Sandbox) -> String {
    sandbox.script(
        "family",
        "#!/bin/sh\nsleep 1000 &\nsetsid sh -c 'sleep 1000 & exec sleep 1000' &\ntouch begun.$$\nwhile :; do sleep 1000; done\n",
    )
}

fn begun(sandbox: &Sandbox, count: usize) -> bool {
    let names = std::fs::read_dir(sandbox.path("work")).expect("work").flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with("begun.")).count() >= count
}

fn forget_begun(sandbox: &Sandbox) {
    for entry in std::fs::read_dir(sandbox.path("work")).expect("work").flatten() {
        if entry.file_name().to_string_lossy().starts_with("begun.") {
            std::fs::remove_file(entry.path()).ok();
        }
    }
}

#[test]
fn killed_worker_crashes_its_own_job_only_and_spends_the_attempt() {
    in_all_settings(|sandbox| {
        let mut running = sandbox.start(&["-w", "2"]);
        let victim = sandbox.put(&["sh", "-c", "sleep 0.01 & exec sh -c 'touch victim; exec sleep 1001'"]);
        let neighbour = sandbox.put(&["sh", "-c", "touch neighbour; while [ ! -e go ]; do sleep 0.02; done"]);
        wait_until("both run", || sandbox.work("victim").exists() && sandbox.work("neighbour").exists());
        let is_victim = |seen: &sandbox::Seen| {
            std::fs::read(format!("/proc/{}/cmdline", seen.pid)).is_ok_and(|line| line == b"sleep\x001001\0")
        };
        let processes = sandbox.job_processes();
        kill(processes.iter().find(|seen| is_victim(seen)).expect("the victim").pid, "KILL");
        sandbox.run(&["job", "wait", &victim, "--timeout", "20s"]);
        let job = sandbox.job(&victim);
        assert_eq!(job["state"], "failed", "{job}");
        assert_eq!(job["crashes"], 1, "{job}");
        assert_eq!(sandbox.state(&neighbour), "running");
        std::fs::write(sandbox.work("go"), "").expect("go");
        sandbox.ok(&["job", "wait", &neighbour, "--timeout", "20s"]);
        sandbox.ok(&["stop"]);
        assert!(running.wait().success());
        sandbox.assert_nothing_left();
    });
}

#[test]
fn supervisor_death_kills_all_jobs_and_they_rerun_with_the_attempt_unspent() {
    in_all_settings(|sandbox| {
        let mut running = sandbox.start(&["-w", "2"]);
        let script = family(sandbox);
        let jids = [sandbox.put(&[&script]), sandbox.put(&[&script])];
        wait_until("both families live", || begun(sandbox, 2));
        let before: Vec<i32> = sandbox.job_processes().iter().map(|seen| seen.pid).collect();
        let supervisor = sandbox.one("tv-supervisor");
        forget_begun(sandbox);
        kill(supervisor, "KILL");
        wait_until("the old families are dead", || !before.iter().any(|pid| alive(*pid)));
        wait_until("both run again", || begun(sandbox, 2));
        assert_ne!(sandbox.one("tv-supervisor"), supervisor);
        for jid in &jids {
            let job = sandbox.job(jid);
            assert_eq!((job["attempt"].as_u64(), job["interruptions"].as_u64()), (Some(1), Some(1)), "{job}");
        }
        running.signal("QUIT");
        running.signal("QUIT");
        running.wait();
        sandbox.assert_nothing_left();
    });
}

#[test]
fn keeper_death_leaves_no_process_and_the_next_start_reruns_the_jobs() {
    in_all_settings(|sandbox| {
        let running = sandbox.start(&["-w", "2"]);
        let script = family(sandbox);
        let jid = sandbox.put(&[&script]);
        wait_until("the family lives", || begun(sandbox, 1));
        running.signal("KILL");
        sandbox.assert_nothing_left();
        forget_begun(sandbox);
        drop(running);
        let mut running = sandbox.start(&["-w", "2"]);
        wait_until("it runs again", || begun(sandbox, 1));
        let job = sandbox.job(&jid);
        assert_eq!((job["attempt"].as_u64(), job["interruptions"].as_u64()), (Some(1), Some(1)), "{job}");
        sandbox.ok(&["job", "cancel", "--wait", &jid]);
        sandbox.ok(&["stop"]);
        assert!(running.wait().success());
        sandbox.assert_nothing_left();
    });
}

#[test]
fn start_after_both_died_kills_orphans_and_reruns_the_jobs() {
    in_all_settings(|sandbox| {
        let running = sandbox.start(&["-w", "2"]);
        let script = family(sandbox);
        let jid = sandbox.put(&[&script]);
        wait_until("the family lives", || begun(sandbox, 1));
        let before: Vec<i32> = sandbox.job_processes().iter().map(|seen| seen.pid).collect();
        let (keeper, supervisor) = (sandbox.one("taskvisor"), sandbox.one("tv-supervisor"));
        kill(supervisor, "STOP");
        kill(keeper, "STOP");
        kill(supervisor, "KILL");
        kill(keeper, "KILL");
        wait_until("both are dead", || !alive(supervisor) && !alive(keeper));
        forget_begun(sandbox);
        drop(running);
        let mut running = sandbox.start(&["-w", "2"]);
        assert!(!before.iter().any(|pid| alive(*pid)), "{:?}", sandbox.job_processes());
        wait_until("it runs again", || begun(sandbox, 1));
        assert_eq!(sandbox.job(&jid)["interruptions"], 1);
        sandbox.ok(&["stop", "--kill"]);
        assert!(running.wait().success(), "{}", sandbox.stderr());
        sandbox.assert_nothing_left();
    });
}

#[test]
fn a_stopped_supervisor_is_fenced_before_its_leases_end() {
    in_all_settings(|sandbox| {
        // Lease 6 s, grace 1 s, margin 2 s: the keeper kills at 3 s.
        let running = sandbox.start(&["-w", "1", "--lease", "6s", "--grace", "1s"]);
        sandbox.put(&["sh", "-c", "touch begun.$$; exec sleep 1000"]);
        wait_until("the job runs", || begun(sandbox, 1));
        let supervisor = sandbox.one("tv-supervisor");
        kill(supervisor, "STOP");
        wait_until("the keeper has killed the job", || sandbox.job_processes().is_empty());
        // The job may begin again as soon as the supervisor continues.
        forget_begun(sandbox);
        kill(supervisor, "CONT");
        wait_until("the job runs again", || begun(sandbox, 1));
        drop(running);
    });
}

#[test]
fn job_is_held_after_the_supervisor_died_three_times_while_it_ran_alone() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let jid = sandbox.put(&["sh", "-c", "touch begun.$$; exec sleep 1000"]);
    for deaths in 0..3 {
        wait_until("the job runs", || begun(&sandbox, 1));
        forget_begun(&sandbox);
        if deaths == 2 {
            assert_suspect_is_named(&sandbox, &jid);
        }
        kill(sandbox.one("tv-supervisor"), "KILL");
    }
    wait_until("it is held", || sandbox.state(&jid) == "held");
    let job = sandbox.job(&jid);
    assert_eq!(job["interruptions"].as_u64(), Some(3), "{job}");
    assert!(
        job["failure"]["message"].as_str().is_some_and(|why| why.contains("no other job ran there")),
        "{job}"
    );
    sandbox.ok(&["job", "retry", &jid]);
    wait_until("it runs again", || sandbox.state(&jid) == "running");
}

/// Job, free slot and pool say that the job has this host for itself, and why.
fn assert_suspect_is_named(sandbox: &Sandbox, jid: &str) {
    wait_until("it is assigned", || sandbox.status()["pools"][0]["slots"][0]["jobs"][0]["alone"] == true);
    let reason = "its supervisor or host died 2 times while it ran";
    let why = sandbox.ok(&["why", "job", jid]);
    assert!(why.contains(&format!("It runs alone: {reason}.")), "{why}");
    assert!(sandbox.ok(&["job", "show", jid]).contains(reason));
    let free = sandbox.ok(&["why", "slot", "default.2"]);
    assert!(free.contains(&format!("No other job begins on this host for now: {jid}")), "{free}");
    let status = sandbox.ok(&["status"]);
    assert!(status.contains(&format!("no other job begins: {jid} is to run alone")), "{status}");
}

/// The supervisor is killed whenever the poison job runs. The neighbours take longer: they complete only because
/// suspects run alone.
#[test]
fn job_that_kills_the_supervisor_is_held_and_its_neighbours_complete() {
    in_all_settings(|sandbox| {
        let running = sandbox.start(&["-w", "4"]);
        let innocent = "touch begun.$$; while [ ! -e go ]; do sleep 0.02; done";
        let neighbours: Vec<String> = (0..3).map(|_| sandbox.put(&["sh", "-c", innocent])).collect();
        wait_until("the neighbours run", || begun(sandbox, 3));
        let poison = sandbox.put(&["sh", "-c", "touch begun.poison; exec sleep 1000"]);
        for _ in 0..2 {
            wait_until("all of them run", || begun(sandbox, 4) && has_poison(sandbox));
            forget_begun(sandbox);
            kill(sandbox.one("tv-supervisor"), "KILL");
        }
        // From here on each of them runs alone.
        std::fs::write(sandbox.work("go"), "").expect("go");
        wait_until("the poison runs alone", || has_poison(sandbox));
        assert_eq!(sandbox.job_processes().len(), 1, "{:?}", sandbox.job_processes());
        kill(sandbox.one("tv-supervisor"), "KILL");
        wait_until("it is held", || sandbox.state(&poison) == "held");
        let job = sandbox.job(&poison);
        assert!(job["failure"]["message"].as_str().is_some_and(|why| why.contains("3 times")), "{job}");
        for jid in &neighbours {
            sandbox.ok(&["job", "wait", jid, "--timeout", "30s"]);
            let job = sandbox.job(jid);
            assert_eq!((&job["state"], &job["attempt"]), (&"complete".into(), &1.into()), "{job}");
        }
        drop(running);
    });
}

/// Whether the poison runs.
fn has_poison(sandbox: &Sandbox) -> bool {
    let names = std::fs::read_dir(sandbox.path("work")).expect("work").flatten();
    names.filter(|entry| entry.file_name().to_string_lossy().starts_with("begun.poison")).count() > 0
}

#[test]

fn death_at_any_failpoint_loses_no_job_and_leaves_no_process() {
    let settings =
        if sandbox::is_root() { vec![Setting::RootCgroup, Setting::Plain] } else { vec![Setting::Plain] };
    for setting in settings {
        for point in failpoint::ALL {
            println!("-- {setting:?}, {point}");
            die_at(setting, point);
        }
    }
}

/// Runs jobs while a process dies at the failpoint. The keeper restarts the supervisor; the test restarts the keeper.
fn die_at(setting: Setting, point: &str) {
    let sandbox = Sandbox::new(setting);
    let points = sandbox.work("points");
    std::fs::create_dir(&points).expect("mkdir");
    std::fs::set_permissions(&points, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("chmod");
    let start = || {
        sandbox.start_with(&["-w", "2", "--grace", "500ms"], |command| {
            command.env("TASKVISOR_FAILPOINTS", &points);
        })
    };
    let jids: Vec<String> = (0..6)
        .map(|n| sandbox.put(&["sh", "-c", &format!("(setsid sleep 1000 &); echo ran >> ran{n}")]))
        .collect();
    std::fs::write(points.join(point), "").expect("a failpoint");
    let mut running = start();
    wait_until("it has died there", || !points.join(point).exists());
    if point.starts_with("keeper") {
        running.wait();
        wait_until("nothing outlives the keeper", || sandbox.processes().is_empty());
        running = start();
    }
    wait_until("all jobs are complete", || {
        jids.iter().all(|jid| sandbox.run(&["job", "wait", jid]).status.success())
    });
    for (n, jid) in jids.iter().enumerate() {
        let runs =
            std::fs::read_to_string(sandbox.work(&format!("ran{n}"))).expect("it ran").lines().count() as u64;
        let job = sandbox.job(jid);
        let interrupted = job["interruptions"].as_u64().expect("a number");
        assert!((1..=interrupted + 1).contains(&runs), "{point}: {runs} runs of {job}");
        assert_eq!((job["attempt"].as_u64(), job["crashes"].as_u64()), (Some(1), Some(0)), "{point}: {job}");
    }
    running.signal("TERM");
    running.wait();
    sandbox.assert_nothing_left();
}

#[test]
fn panic_of_the_supervisor_is_logged_with_its_place_and_its_successor_logs_why() {
    let sandbox = Sandbox::new(Setting::Plain);
    let (points, logs) = (sandbox.work("points"), sandbox.work("logs"));
    std::fs::create_dir(&points).expect("mkdir");
    std::fs::set_permissions(&points, std::os::unix::fs::PermissionsExt::from_mode(0o777)).expect("chmod");
    std::fs::write(sandbox.work("t.yaml"), format!("log: {{dir: {}}}\n", logs.display())).expect("settings");
    let mut running = sandbox.start_with(&["-c", "t.yaml"], |command| {
        command.env("TASKVISOR_FAILPOINTS", &points);
    });
    std::fs::write(points.join("new"), "panic").expect("a failpoint");
    std::fs::rename(points.join("new"), points.join("supervisor-5-assigned")).expect("a failpoint");
    let jid = sandbox.put(&["true"]);
    sandbox.ok(&["job", "wait", "--timeout", "1m", &jid]);
    let read = || std::fs::read_to_string(logs.join("taskvisor.log")).unwrap_or_default();
    wait_until("the next supervisor has logged how its predecessor ended", || {
        read().contains("ended=exit code 101")
    });
    let log = read();
    let line = |words: &str| log.lines().position(|line| line.contains(words)).expect(words);
    let panicked = line("ERROR the supervisor panicked");
    let words = log.lines().nth(panicked).unwrap_or_default();
    assert!(words.contains("src/failpoint") && words.contains("supervisor-5-assigned"), "{words}");
    assert!(panicked < line("ended=exit code 101"), "{log}");
    assert!(sandbox.stderr().contains("ended by exit code 101, starting it again"), "{}", sandbox.stderr());
    sandbox.ok(&["stop"]);
    running.wait();
    sandbox.assert_nothing_left();
}

#[test]
fn stop_works_while_the_keeper_restarts_the_supervisor() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    // From the second death on the keeper waits before it starts the next one.
    for _ in 0..3 {
        let supervisor = sandbox.one("tv-supervisor");
        kill(supervisor, "KILL");
        wait_until("it is dead", || !alive(supervisor));
    }
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
    sandbox.assert_nothing_left();
}

#[test]
fn status_and_stop_with_a_timeout_return_though_the_supervisor_hangs() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    kill(sandbox.one("tv-supervisor"), "STOP");
    assert_eq!(sandbox.run(&["stop", "--timeout", "100ms"]).status.code(), Some(124));
    assert_eq!(sandbox.run(&["status", "-q"]).status.code(), Some(6));
}

#[test]
fn killing_the_supervisor_completes_no_unrun_job_in_a_flood_of_short_programs() {
    use std::io::Write;
    const JOBS: usize = 1500;
    let sandbox = Sandbox::new(Setting::Root);
    let mut put =
        sandbox.command(&["put", "--lines", "--", "sh", "-c", "/bin/true; echo $TASKVISOR_JOB >> ran"]);
    let put = put.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut put = put.spawn().expect("put");
    let lines: String = (0..JOBS).map(|n| format!("{n}\n")).collect();
    put.stdin.take().expect("stdin").write_all(lines.as_bytes()).expect("lines");
    let jids = String::from_utf8(put.wait_with_output().expect("put").stdout).expect("text");
    assert_eq!(jids.lines().count(), JOBS);
    let mut running = sandbox.start(&["-w", "3"]);
    let ran = || std::fs::read_to_string(sandbox.work("ran")).unwrap_or_default();
    for part in 1..=3 {
        wait_until("a part of them has run", || ran().lines().count() >= part * JOBS / 4);
        kill(sandbox.one("tv-supervisor"), "KILL");
    }
    let mut wait = sandbox.command(&["job", "wait", "--timeout", "60s"]);
    let wait = wait.args(jids.lines()).output().expect("wait");
    let states = String::from_utf8_lossy(&wait.stdout).into_owned();
    assert!(wait.status.success(), "{}", String::from_utf8_lossy(&wait.stderr));
    assert_eq!(states.matches(" complete\n").count(), JOBS);
    let ran: std::collections::BTreeSet<String> = ran().lines().map(str::to_owned).collect();
    let never: Vec<&str> = jids.lines().filter(|jid| !ran.contains(*jid)).collect();
    assert!(never.is_empty(), "complete although they never ran: {never:?}");
    // The next supervisor relies on this: each job ran in the life that the store has recorded for it.
    let list = sandbox.ok(&["job", "list", "--limit", "2000", "--json"]);
    let jobs = list.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect("JSON"));
    let elsewhere = jobs.filter(|job| job["worker"] != job["forensics"]["worker"]).count();
    assert_eq!(elsewhere, 0, "ran in another life than the store knows");
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
}
