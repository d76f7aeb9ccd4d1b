//! Stops of supervisors that do not answer: what keeps them is said, and the stop goes on.

use nix::fcntl::{Flock, FlockArg};

use super::*;

#[test]
fn stop_ends_a_keeper_whose_supervisor_cannot_start() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let (keeper, supervisor) = (sandbox.one("taskvisor"), sandbox.one("tv-supervisor"));
    let store = sandbox.path("state").join("store.db");
    fs::rename(&store, sandbox.path("away")).expect("mv");
    kill(supervisor, "KILL");
    let named = format!("its keeper (pid {keeper}) lives and tries to start one again");
    wait_until("status names the keeper", || {
        let status = sandbox.run(&["status"]);
        status.status.code() == Some(3) && String::from_utf8_lossy(&status.stderr).contains(&named)
    });
    let stopped = sandbox.run(&["stop", "--timeout", "20s"]);
    assert_says(&sandbox, &stopped, 0, &[&format!("its keeper (pid {keeper}) gets SIGTERM instead")]);
    running.wait();
    sandbox.assert_nothing_left();
}

#[test]
fn stop_says_that_the_keeper_is_stopped() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let keeper = sandbox.one("taskvisor");
    kill(keeper, "STOP");
    let mut stop = sandbox.command(&["stop"]).stderr(Stdio::piped()).spawn().expect("stop");
    let stderr = BufReader::new(stop.stderr.take().expect("its stderr"));
    let hint = stderr.lines().map_while(Result::ok).find(|line| line.starts_with("hint: "));
    assert_eq!(hint, Some(format!("hint: kill -CONT {keeper}")));
    kill(keeper, "CONT");
    assert_eq!(stop.wait().expect("its end").code(), Some(0));
    running.wait();
    sandbox.assert_nothing_left();
}

#[test]
fn stop_beside_process_1_of_a_container_ends_well_before_it_dies_with_it() {
    if !is_root() {
        return missing("root");
    }
    for round in 0..5 {
        let sandbox = Sandbox::new(Setting::Pid1);
        let mut running = sandbox.start(&["-w", "1"]);
        sandbox.put(&["sleep", "0.3"]);
        let keeper = sandbox.one("taskvisor").to_string();
        let mut stop = Command::new("nsenter");
        stop.args(["--target", &keeper, "--pid", "--mount"]).arg(env!("CARGO_BIN_EXE_taskvisor")).arg("stop");
        let stop = stop.env("TASKVISOR_RUN_DIR", sandbox.path("run")).output().expect("nsenter");
        assert_says(&sandbox, &stop, 0, &[]);
        assert!(running.wait().success(), "round {round}");
    }
}

/// As a `start` that waits for the lock, and is the first to have it.
#[test]
fn stop_ends_with_its_own_supervisor_though_another_waits_for_the_lock() {
    let sandbox = Sandbox::new(Setting::Plain);
    let mut running = sandbox.start(&["-w", "1"]);
    let file = fs::File::open(sandbox.path("run/lock")).expect("the lock");
    let next = std::thread::spawn(move || Flock::lock(file, FlockArg::LockExclusive).expect("flock"));
    let own = std::process::id().to_string();
    wait_until("it waits for the lock", || {
        let locks = fs::read_to_string("/proc/locks").expect("the locks");
        locks.lines().any(|line| line.contains("-> FLOCK") && line.split_whitespace().any(|word| word == own))
    });
    let stopped = sandbox.run(&["stop", "--kill", "--timeout", "10s"]);
    assert_says(&sandbox, &stopped, 0, &[]);
    running.wait();
    drop(next.join().expect("it has the lock"));
}
