//! Jobs that misbehave in every way real jobs do. The pool keeps working, and no process of theirs is left.

#[path = "support/sandbox.rs"]
mod sandbox;

use std::process::Stdio;

use sandbox::{Sandbox, Setting, alive, cpu_ticks, in_all_settings, kill, wait_until};

/// Runs one program to its end and returns its record.
fn run(sandbox: &Sandbox, argv: &[&str]) -> serde_json::Value {
    let jid = sandbox.put(argv);
    sandbox.run(&["job", "wait", &jid, "--timeout", "60s"]);
    sandbox.job(&jid)
}

#[test]
fn orphans_of_a_job_are_killed_and_counted() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "2"]);
        let script = sandbox.script(
            "leaver",
            "#!/bin/sh\nsetsid sh -c '(env -i setsid sleep 1000 &) ; exec sleep 1000' &\nsleep 1000 &\nexit 0\n",
        );
        let job = run(sandbox, &[&script]);
        assert_eq!(job["state"], "complete", "{job}");
        let left = job["forensics"]["exit"]["left_behind"].as_u64().expect("a number");
        assert!((2..=4).contains(&left), "{job}");
        sandbox.assert_calm();
    });
}

#[test]
fn cancel_kills_every_kind_of_descendant() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "1", "--grace", "300ms"]);
        let beasts = [
            ("daemon", "(setsid sh -c 'setsid sleep 1000 & exec sleep 1000' &); touch begun; sleep 1000"),
            ("ignorer", "trap '' TERM INT HUP; touch begun; while :; do sleep 0.05; done"),
            ("stopped", "sleep 1000 & kill -STOP $!; touch begun; kill -STOP $$"),
            ("pipeline", "touch begun; yes | cat | cat > /dev/null"),
            (
                "pool",
                "touch begun; exec python3 -c 'import multiprocessing, time\nmultiprocessing.Pool(4).map(time.sleep, [1000] * 4)'",
            ),
            (
                "heavy",
                "touch begun; exec python3 -c 'import time; x = bytearray(200 << 20); time.sleep(1000)'",
            ),
            ("holder", "exec 9>&1; (setsid sleep 1000 &); touch begun; sleep 1000"),
            ("crowd", "for i in $(seq 50); do sleep 1000 & done; touch begun; wait"),
        ];
        for (name, body) in beasts {
            std::fs::remove_file(sandbox.work("begun")).ok();
            let jid = sandbox.put(&["sh", "-c", body]);
            wait_until(name, || sandbox.work("begun").exists());
            sandbox.ok(&["job", "cancel", "--wait", &jid]);
            assert_eq!(sandbox.state(&jid), "canceled", "{name}");
            assert!(sandbox.job_processes().is_empty(), "{name} left {:?}", sandbox.job_processes());
        }
        sandbox.assert_calm();
    });
}

#[test]
fn job_finds_no_secrets_in_keeper_supervisor_and_spawner() {
    if !sandbox::is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Plain);
    let settings = "pools: [{name: default, workers: 2, limits: {oom_score_adj: 300}}]\n";
    std::fs::write(sandbox.work("site.yaml"), settings).expect("a file");
    let _running = sandbox.start_with(&["-c", "site.yaml"], |command| {
        command.env("A_SECRET", "of-the-service");
    });
    wait_until("all slots are up", || sandbox::is_up(&sandbox.status()));
    // The supervisor and the spawner, which opens itself for a moment to set the score of the job.
    let keeper = sandbox.one("taskvisor");
    let children =
        std::fs::read_to_string(format!("/proc/{keeper}/task/{keeper}/children")).expect("children");
    let around: Vec<i32> = children.split_whitespace().flat_map(str::parse).chain([keeper]).collect();
    assert_eq!(around.len(), 3, "{around:?}");
    let pids: Vec<String> = around.iter().map(i32::to_string).collect();
    let look = "for pid in $0 $PPID; do test $pid != $$ && cat /proc/$pid/environ /proc/$pid/maps && exit 9; done
         ls /proc/$PPID/cwd/ && exit 8
         cat /proc/self/environ > own && test \"$(stat -c %u /proc/$$/stat)\" = \"$(id -u)\" && cat /proc/self/oom_score_adj";
    let job = run(&sandbox, &["sh", "-c", look, &pids.join(" ")]);
    assert_eq!(
        job["state"],
        "complete",
        "{job}\n{}",
        sandbox.ok(&["job", "logs", job["id"].as_str().expect("an id")])
    );
    assert!(sandbox.ok(&["job", "logs", job["id"].as_str().expect("an id")]).contains("300"));
    let own = std::fs::read_to_string(sandbox.work("own")).expect("its own environment");
    assert!(own.contains("TASKVISOR_JOB") && !own.contains("A_SECRET"), "{own}");
}

#[test]
fn a_program_that_cannot_run_fails_with_the_reason() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let plain = sandbox.work("plain");
    std::fs::write(&plain, "no program").expect("a file");
    let script = |name: &str, text: &str| {
        let path = sandbox.work(name).display().to_string();
        std::fs::write(&path, text.replace("ITSELF", &path)).expect("a file");
        std::fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).expect("a mode");
        path
    };
    let (bare, circle) = (script("bare", "echo hello\n"), script("circle", "#!ITSELF\n"));
    let plain = plain.display().to_string();
    for (argv, group, words) in [
        (vec!["no-such-program"], "not found", "no program 'no-such-program' in PATH"),
        (vec!["/no/such/program"], "not found", "no program '/no/such/program'"),
        (vec![plain.as_str()], "not executable", "is not executable"),
        (vec![bare.as_str()], "cannot start", "it is no program, and has no #! line"),
        (vec![circle.as_str()], "cannot start", "its interpreter is a script, too"),
    ] {
        let job = run(&sandbox, &argv);
        assert_eq!(
            (job["state"].as_str(), job["failure"]["group"].as_str()),
            (Some("failed"), Some(group)),
            "{job}"
        );
        assert!(job["failure"]["message"].as_str().expect("a message").contains(words), "{job}");
    }
    let gone = sandbox.work("gone");
    std::fs::create_dir(&gone).expect("mkdir");
    let mut put = sandbox.command(&["queue", "pause", "default"]);
    assert!(put.status().expect("pause").success());
    let mut put = sandbox.command(&["put", "--", "true"]);
    let jid = String::from_utf8(put.current_dir(&gone).output().expect("put").stdout).expect("a jid");
    std::fs::remove_dir(&gone).expect("rmdir");
    sandbox.ok(&["queue", "resume", "default"]);
    sandbox.run(&["job", "wait", jid.trim(), "--timeout", "20s"]);
    let job = sandbox.job(jid.trim());
    assert_eq!(job["failure"]["group"], "no directory", "{job}");
}

#[test]
fn ten_megabytes_of_data_arrive_whole() {
    let sandbox = Sandbox::new(Setting::Plain);
    let data: Vec<u8> = (0..10 << 20).map(|n: u32| (n.wrapping_mul(2654435761) >> 24) as u8).collect();
    std::fs::write(sandbox.work("data"), &data).expect("data");
    let jid = sandbox.ok(&["put", "-d", "@data", "--", "cp", "/dev/stdin", "copy"]);
    let mut running = sandbox.start_raw(&["-w", "1", "--burst"]);
    assert!(running.wait().success());
    assert_eq!(sandbox.state(jid.trim()), "complete", "{}", sandbox.job(jid.trim()));
    assert!(std::fs::read(sandbox.work("copy")).expect("the copy") == data);
}

#[test]
fn flood_of_output_is_cut_and_marked_and_delays_no_other_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "2"]);
    let jid = sandbox.put(&["sh", "-c", "head -c 30000000 /dev/zero | tr '\\0' x; echo end >&2"]);
    assert_eq!(run(&sandbox, &["true"])["state"], "complete");
    sandbox.ok(&["job", "wait", &jid, "--timeout", "60s"]);
    let job = sandbox.job(&jid);
    let dropped = job["forensics"]["output_dropped"].as_u64().expect("a number");
    assert!(dropped > 0, "{job}");
    assert_eq!(job["forensics"]["stderr_tail"], "end\n");
    let log = sandbox.ok(&["job", "logs", &jid]);
    assert!(
        log.contains("[taskvisor: output over") && (log.len() as u64) < 12_000_000,
        "{} bytes",
        log.len()
    );
}

#[test]
fn job_that_closes_stdout_costs_the_supervisor_no_cpu() {
    in_all_settings(|sandbox| {
        let running = sandbox.start(&["-w", "2"]);
        let closer = sandbox.put(&["sh", "-c", "exec >&- 2>&-; touch begun; exec sleep 1000"]);
        wait_until("it runs", || sandbox.work("begun").exists());
        let supervisor = sandbox.one("tv-supervisor");
        let before = cpu_ticks(supervisor);
        for _ in 0..30 {
            assert_eq!(run(sandbox, &["true"])["state"], "complete");
        }
        assert!(cpu_ticks(supervisor) - before < 150, "the supervisor spins on a closed pipe");
        sandbox.ok(&["job", "cancel", "--wait", &closer]);
        sandbox.assert_calm();
        drop(running);
    });
}

#[test]
fn a_fork_bomb_dies_with_its_job() {
    let pids = std::path::Path::new("/sys/fs/cgroup/pids");
    if !sandbox::is_root() || !pids.join("cgroup.procs").exists() {
        sandbox::missing("pids");
        return;
    }
    let cell = pids.join(format!("taskvisor-test-{}", std::process::id()));
    std::fs::create_dir(&cell).expect("a pids cgroup");
    std::fs::write(cell.join("pids.max"), "300").expect("a limit");
    for setting in [Setting::RootCgroup, Setting::Root] {
        let sandbox = Sandbox::new(setting);
        let procs = cell.join("cgroup.procs").display().to_string();
        let _running = sandbox.start(&["-w", "2", "--grace", "100ms"]);
        let bomb = "echo $$ > \"$0\"; touch begun; b() { b | b & }; b; b; sleep 1000";
        let jid = sandbox.put(&["bash", "-c", bomb, &procs]);
        wait_until("the bomb is in its cell", || sandbox.work("begun").exists());
        wait_until("the cell is full", || {
            std::fs::read_to_string(cell.join("pids.current"))
                .is_ok_and(|count| count.trim().parse::<u32>().unwrap_or(0) > 200)
        });
        sandbox.ok(&["job", "cancel", "--wait", &jid]);
        assert!(sandbox.job_processes().is_empty(), "{:?}", sandbox.job_processes());
        sandbox.assert_calm();
    }
    wait_until("the cell is empty", || std::fs::remove_dir(&cell).is_ok());
}

#[test]
fn a_killed_spawner_is_replaced_and_no_slot_notices() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "1"]);
        let spawner = sandbox.one("tv-spawner");
        kill(spawner, "KILL");
        wait_until("there is another", || {
            !alive(spawner) && sandbox.processes().iter().any(|seen| seen.comm == "tv-spawner")
        });
        assert_eq!(run(sandbox, &["true"])["state"], "complete");
        sandbox.assert_calm();
    });
}

#[test]
fn silent_api_client_delays_no_job() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let socket = sandbox.path("run").join("ctl.sock");
    let silent: Vec<_> =
        (0..20).map(|_| std::os::unix::net::UnixStream::connect(&socket).expect("connect")).collect();
    assert_eq!(run(&sandbox, &["true"])["state"], "complete");
    drop(silent);
}

#[test]
fn status_reports_no_error_when_its_reader_goes_away() {
    let sandbox = Sandbox::new(Setting::Plain);
    let _running = sandbox.start(&["-w", "1"]);
    let mut status =
        sandbox.command(&["status"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("status");
    drop(status.stdout.take());
    let output = status.wait_with_output().expect("status");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn jobs_that_kill_themselves_do_not_delay_the_next_one() {
    let sandbox = Sandbox::new(Setting::Plain);
    for _ in 0..8 {
        sandbox.put(&["sh", "-c", "kill -9 $$"]);
    }
    let last = sandbox.put(&["true"]);
    let start = std::time::Instant::now();
    let mut running = sandbox.start_raw(&["-w", "1", "--burst"]);
    assert!(running.wait().success());
    assert_eq!(sandbox.state(&last), "complete");
    // With backoff after each death it would take half a minute.
    assert!(start.elapsed() < std::time::Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn burst_does_not_wait_for_a_paused_queue() {
    let sandbox = Sandbox::new(Setting::Plain);
    let paused = sandbox.ok(&["put", "-q", "later", "--", "true"]);
    sandbox.ok(&["queue", "pause", "later"]);
    let open = sandbox.put(&["true"]);
    let mut running = sandbox.start_raw(&["-w", "1", "-q", "later", "-q", "default", "--burst"]);
    assert!(running.wait().success());
    assert_eq!(
        (sandbox.state(&open).as_str(), sandbox.state(paused.trim()).as_str()),
        ("complete", "waiting")
    );
}
