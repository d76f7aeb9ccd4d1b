//! The keeper itself: missing resources, locks, its own limits, and supervisors that crash or hang.

use super::*;

#[test]
fn keeper_removes_cgroups_of_dead_keepers_but_not_of_living_ones() {
    let (mut dead, hello) = Keeper::start("");
    if !hello.cgroup {
        missing("cgroup2");
        return dead.shutdown(0);
    }
    let parked = dead.park(worker(1, 1));
    signal(dead.pid(), SIGKILL);
    dead.wait();
    wait_until("its child is dead", SOON, || !lives(parked.pid));
    let left = support::cgroups_of(dead.pid());
    assert_eq!(left.len(), 1);
    let namespace = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    let ours = || support::cgroups_of(1);
    let others = ours();
    let (mut hidden, _) = Keeper::start_with("", &namespace, &[]);
    let hers: Vec<_> = ours().into_iter().filter(|path| !others.contains(path)).collect();
    assert_eq!(hers.len(), 1);

    let (keeper, _) = Keeper::start("");
    assert!(!left[0].exists(), "a dead keeper's directory is left");
    assert!(hers[0].exists(), "a living keeper's directory is gone");
    let parked = hidden.park(worker(1, 1));
    assert!(hers[0].join(parked.worker.to_string()).exists());
    hidden.shutdown(0);
    assert!(!hers[0].exists());
    keeper.shutdown(0);
}

#[test]
fn a_fork_that_fails_is_reported_and_the_keeper_lives() {
    for without in ["", "cgroup"] {
        let (mut keeper, _) = Keeper::start(without);
        let Some(limit) = PidsLimit::around(keeper.pid(), 1) else {
            missing("pids");
            return keeper.shutdown(0);
        };
        keeper.order(&[Order::Spawn(worker(1, 1))]);
        assert_eq!(
            keeper.report().0,
            Report::SpawnFailed { worker: worker(1, 1), step: Step::Fork, errno: libc::EAGAIN }
        );
        limit.set(100);
        let parked = keeper.park(worker(1, 1));
        assert!(lives(parked.pid));
        keeper.shutdown(0);
    }
}

#[test]
fn running_out_of_descriptors_is_reported_and_the_keeper_lives() {
    let (mut keeper, _) = Keeper::start_with("cgroup", &["prlimit", "--nofile=24:24"], &[]);
    let (mut started, mut failed) = (Vec::new(), 0);
    for generation in 1..=20 {
        keeper.order(&[Order::Spawn(worker(1, generation))]);
        match keeper.report() {
            (Report::Started(id, _), fds) => started.push((id, fds)),
            (Report::SpawnFailed { errno, .. }, _) if errno == libc::EMFILE => failed += 1,
            other => panic!("{other:?}"),
        }
    }
    assert!(failed > 5 && !started.is_empty(), "{failed} failed");
    let first = started[0].0;
    keeper.order(&[Order::KillTree(first)]);
    keeper.exited(first);
    keeper.order(&[Order::Forget(first)]);
    let again = keeper.park(worker(2, 21));
    let limits = fs::read_to_string(format!("/proc/{}/limits", again.pid)).unwrap();
    assert!(limits.contains("Max open files            24"), "{limits}");
    keeper.shutdown(0);
}

#[test]
fn keeper_exits_with_the_code_of_a_supervisor_that_refuses_to_start() {
    for (line, code) in [("exit 78", 78), ("exit 0", 0), ("exec /nonexistent 2>/dev/null", 127)] {
        let status = std::process::Command::new(support::KEEPER)
            .args(["keeper", "--", "/bin/sh", "-c", line])
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}

#[test]
fn keeper_waits_out_a_shortage_of_processes_for_its_next_supervisor() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let into = format!("exec \"$@\" 2>{}", log.path().display());
    let (mut keeper, _) = Keeper::start_with("", &["sh", "-c", &into, "sh"], &[]);
    let Some(limit) = PidsLimit::around(keeper.pid(), 1) else {
        missing("pids");
        return keeper.shutdown(0);
    };
    signal(keeper.supervisor, SIGKILL);
    let refused =
        || fs::read_to_string(log.path()).unwrap().matches("failed to start the supervisor: EAGAIN").count();
    wait_until("it has been refused more often than it may crash", SOON, || refused() >= 5);
    limit.set(100);
    assert!(keeper.next_supervisor().restarts > 5);
    keeper.shutdown(0);
}

#[test]
fn keeper_waits_for_a_supervisor_at_work_that_lacks_something() {
    let (mut keeper, _) = Keeper::start("");
    for restarts in 1..=5 {
        // An order shows that it has been at work.
        keeper.order(&[Order::StopDeadline(Duration::from_secs(1))]);
        keeper.exit_with(69);
        assert_eq!(keeper.next_supervisor().restarts, restarts);
    }
    keeper.shutdown(0);
}

#[test]
fn children_that_no_life_has_left_are_spared_and_counted_for_none() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().display().to_string();
    nix::unistd::mkfifo(&dir.path().join("word"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    // The script starts two processes and then becomes the keeper: a daemon, which has called setsid, and a helper. When
    // the test writes into the FIFO, the helper starts a third process and ends, so that it becomes the keeper's child.
    let script = format!(
        "exec 5>&2 >/dev/null 2>&1; setsid sleep 1000 & echo $! >{path}/daemon
        (read word <{path}/word; sleep 1000 & echo $! >{path}/left) & exec 2>&5 5>&-; exec \"$@\""
    );
    let (mut keeper, _) = Keeper::start_with("cgroup", &["sh", "-c", &script, "sh"], &[]);
    let pid =
        |file: &str| fs::read_to_string(dir.path().join(file)).ok().and_then(|pid| pid.trim().parse().ok());
    let daemon: i32 = pid("daemon").unwrap();
    let run = keeper.run(worker(1, 1), "exit 3");
    assert_eq!(keeper.exited(run.worker).left_behind, 0);
    assert!(lives(daemon));
    fs::write(dir.path().join("word"), "on\n").unwrap();
    let left = || pid("left").filter(|pid| keeper.children().contains(pid));
    wait_until("the helper has left a process to the keeper", SOON, || left().is_some());
    let left: i32 = left().unwrap();
    let run = keeper.run(worker(1, 2), &format!("{DAEMON}; exit 4"));
    let own: i32 = run.line().trim().parse().unwrap();
    assert_eq!(keeper.exited(run.worker).left_behind, 1, "what the life has left");
    assert_eq!([daemon, left, own].map(lives), [true, true, false]);
    [daemon, left].into_iter().for_each(|pid| signal(pid, SIGKILL));
    keeper.shutdown(0);
}

#[test]
fn keeper_gives_up_a_supervisor_that_crashes_too_often() {
    let output = std::process::Command::new(support::KEEPER)
        .args(["keeper", "--", "/bin/sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(70));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("the supervisor ended by signal 9, too often: giving up\n"), "{said}");
    let killer = said.lines().filter(|line| line.contains("nobody here sent that SIGKILL: ")).count();
    assert_eq!((killer, said.lines().count()), (5, 10), "{said}");
}

#[test]
fn keeper_repeats_a_stop_request_to_the_next_supervisor() {
    let (mut keeper, _) = Keeper::start("");
    signal(keeper.pid(), SIGTERM);
    assert_eq!(keeper.report().0, Report::Asked(Ask::Terminate));
    signal(keeper.supervisor, SIGKILL);
    assert_eq!(keeper.next_supervisor().restarts, 1);
    assert_eq!(keeper.report().0, Report::Asked(Ask::Terminate));
    keeper.shutdown(0);
}

#[test]
fn keeper_obeys_the_last_order_of_a_supervisor_that_left_reports_unread() {
    let (mut keeper, _) = Keeper::start("cgroup");
    keeper.order(&[Order::Spawn(worker(1, 1))]);
    keeper.leave(Order::Shutdown(7));
    assert_eq!(keeper.wait().code(), Some(7));
}

#[test]
fn keeper_stops_by_itself_when_the_supervisor_does_not_read_the_stop_request() {
    let (mut keeper, _) = Keeper::start_with("", &[], &["--stop-deadline", "0.2"]);
    let run = keeper.run(worker(1, 1), "sleep 1000");
    signal(keeper.pid(), SIGTERM);
    assert_eq!(keeper.wait().code(), Some(124));
    assert!(!lives(run.pid));
}

#[test]
fn keeper_waits_for_the_latest_stop_deadline_before_it_stops_by_itself() {
    let (mut keeper, _) = Keeper::start_with("", &[], &["--stop-deadline", "1000"]);
    keeper.order(&[Order::StopDeadline(Duration::from_millis(200))]);
    let run = keeper.run(worker(1, 1), "sleep 1000");
    signal(keeper.pid(), SIGTERM);
    assert_eq!(keeper.wait().code(), Some(124));
    assert!(!lives(run.pid));
}

#[test]
fn keeper_as_process_1_reaps_orphans() {
    if !nix::unistd::geteuid().is_root() {
        return missing("root");
    }
    for without in ["", "cgroup"] {
        let before = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
        let (mut keeper, hello) = Keeper::start_with(without, &before, &[]);
        assert_eq!(hello.pid, 1);
        let run = keeper.run(worker(1, 1), &format!("{DAEMON}; exit 0"));
        run.line();
        let exit = keeper.exited(worker(1, 1));
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(0), 1));
        keeper.shutdown(5);
    }
}

/// A process without the keeper's mark is a stranger there only if it has no tag either.
#[test]
fn keeper_as_process_1_kills_what_a_job_leaves_under_another_limit_on_file_locks() {
    if !nix::unistd::geteuid().is_root() {
        return missing("root");
    }
    for without in ["", "cgroup"] {
        let before = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
        let (mut keeper, _) = Keeper::start_with(without, &before, &[]);
        let parked = keeper.park(worker(1, 1));
        let mut order =
            shell("setsid sh -c 'prlimit --locks=7: setsid sleep 1000 >/dev/null & echo $!'; exit 0");
        order.env.push(format!("{}=of its keeper", keeper::TAG_VARIABLE).into_bytes());
        parked.exec(&order);
        parked.line();
        let exit = keeper.exited(worker(1, 1));
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(0), 1), "{without}");
        keeper.shutdown(5);
    }
}

#[test]
fn keeper_forwards_notify_messages_and_hides_notify_socket_from_the_supervisor() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let systemd = std::os::unix::net::UnixDatagram::bind(&path).unwrap();
    systemd.set_read_timeout(Some(SOON)).unwrap();
    let address = format!("NOTIFY_SOCKET={}", path.display());
    let (keeper, _) = Keeper::start_with("", &["env", &address], &[]);
    keeper.order(&[Order::Notify("READY=1\nSTATUS=up".into())]);
    let mut text = [0; 64];
    let len = systemd.recv(&mut text).unwrap();
    assert_eq!(&text[..len], b"READY=1\nSTATUS=up");
    let environ = fs::read_to_string(format!("/proc/{}/environ", keeper.supervisor)).unwrap();
    assert!(environ.contains("TASKVISOR_KEEPER_FD=3") && !environ.contains("NOTIFY_SOCKET"));
    keeper.shutdown(0);
}

#[test]
fn keeper_and_supervisor_hold_the_lock_but_no_child_does() {
    let dir = tempfile::tempdir().unwrap();
    let lock = dir.path().join("lock");
    let script = format!("exec 9>{}; exec \"$@\"", lock.display());
    let (mut keeper, _) = Keeper::start_with("", &["sh", "-c", &script, "sh"], &["--lock-fd", "9"]);
    let holds = |pid: i32| fs::read_link(format!("/proc/{pid}/fd/9")).is_ok_and(|target| target == lock);
    let run = keeper.run(worker(1, 1), "echo up; sleep 1000");
    assert_eq!(run.line(), "up\n");
    assert_eq!([keeper.pid(), keeper.supervisor, run.pid].map(holds), [true, true, false]);
    keeper.shutdown(0);
}

#[test]
fn exits_wait_for_a_slow_supervisor_and_none_is_lost() {
    let (mut keeper, _) = Keeper::start("cgroup");
    const LIVES: u32 = 400;
    // Reports with descriptors fill the socket; the keeper then takes no more orders until it is read.
    for first in (1..=LIVES).step_by(100) {
        let lives = (first..first + 100).map(|generation| worker(1, generation));
        let orders: Vec<Order> = lives.flat_map(|id| [Order::Spawn(id), Order::KillTree(id)]).collect();
        keeper.order(&orders);
    }
    let (mut started, mut exited) = (0, 0);
    while exited < LIVES {
        match keeper.report().0 {
            Report::Started(..) => started += 1,
            Report::Exited { worker: id, exit, .. } => {
                assert_eq!(exit.status, KILLED, "{id}");
                exited += 1;
            }
            Report::SpawnFailed { .. } => panic!("a spawn failed"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(started, LIVES);
    keeper.shutdown(0);
}

/// Prints a figure; the bound is so wide that only a mistake exceeds it.
#[test]
fn spawn_kill_cycle_costs_the_keeper_little_cpu() {
    let cycles: u32 = std::env::var("TV_CYCLES").map_or(200, |cycles| cycles.parse().unwrap());
    for (without, forked) in [("", false), ("", true), ("cgroup", false), ("cgroup", true)] {
        let (mut keeper, hello) = Keeper::start(without);
        let template = forked.then(|| keeper.template(TEMPLATE, &["forks"]));
        let (before, mut wait) = (support::cpu(keeper.pid()), Duration::ZERO);
        for generation in 1..=cycles {
            let asked = clock::now();
            let run = match &template {
                Some(template) => keeper.fork(worker(1, generation), template.worker),
                None => keeper.park(worker(1, generation)),
            };
            wait += clock::now().since(asked);
            match forked {
                true => run.job("exec /bin/true"),
                false => run.exec(&program(&["/bin/true"])),
            }
            assert_eq!(keeper.exited(run.worker).status, ExitStatus::Code(0));
            keeper.order(&[Order::Forget(run.worker)]);
        }
        let cost = (support::cpu(keeper.pid()) - before) / cycles;
        let rollup = fs::read_to_string(format!("/proc/{}/smaps_rollup", keeper.pid())).unwrap();
        let private = rollup.lines().find(|line| line.starts_with("Private_Dirty")).unwrap();
        let of = format!("cgroup {}, forked by a template {forked}", hello.cgroup);
        println!("{of}: {cost:?} of CPU a cycle, {:?} until it has started; {private}", wait / cycles);
        assert!(cost < Duration::from_millis(5), "{cost:?}");
        keeper.shutdown(0);
    }
}
