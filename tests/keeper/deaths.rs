//! Process trees that are killed and proven dead, in whatever order their processes die.

use super::*;

stories! {
    keeper_kills_and_counts_an_orphaned_daemon
    a_worker_that_ignores_term_dies_by_kill
    terminate_signals_the_whole_process_group
    a_stopped_tree_dies
    a_storm_of_forks_is_proven_dead
    a_tree_of_fifty_is_proven_dead
    a_bomb_that_fills_its_limit_is_proven_dead
    a_leader_that_its_own_child_traces_is_proven_dead
    orphans_of_a_traced_leader_count_for_it_though_it_is_reaped_late
    the_fence_kills_while_the_supervisor_is_stopped
    the_fence_waits_once_if_the_keeper_was_stopped_itself
    supervisor_death_kills_its_trees_and_the_next_one_gets_unread_exits
    what_a_dead_supervisor_leaves_is_killed_and_counts_for_no_life
    keeper_death_kills_its_children
    unkillable_process_is_reported_stuck_and_blocks_no_other_life
    unkillable_process_beside_many_lives_blocks_no_later_one
    keeper_reports_no_exit_while_a_daemon_of_the_life_is_alive
}

fn keeper_kills_and_counts_an_orphaned_daemon(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), &format!("{DAEMON}; exit 0"));
    let daemon: i32 = run.line().trim().parse().unwrap();
    let exit = keeper.exited(worker(1, 1));
    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(0), 1));
    assert!(!lives(daemon));
    assert!(exit.proof < Duration::from_secs(2), "{:?}", exit.proof);
    keeper.shutdown(0);
}

fn a_worker_that_ignores_term_dies_by_kill(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), &format!("trap '' TERM; {DAEMON}; while :; do sleep 1; done"));
    let daemon: i32 = run.line().trim().parse().unwrap();
    keeper.order(&[Order::Terminate(worker(1, 1)), Order::Terminate(worker(9, 9))]);
    assert!(lives(daemon) && lives(run.pid));
    keeper.order(&[Order::KillTree(worker(1, 1)), Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    assert!(!lives(daemon) && !lives(run.pid));
    keeper.shutdown(0);
}

fn terminate_signals_the_whole_process_group(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), "trap 'wait; exit 5' TERM; sleep 1000 & echo $!; kill -STOP $$; wait");
    let sleep: i32 = run.line().trim().parse().unwrap();
    let stat = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    wait_until("it sleeps and its parent has stopped", SOON, || {
        stat(sleep).contains("(sleep)") && stat(run.pid).contains(") T")
    });
    keeper.order(&[Order::Terminate(worker(1, 1))]);
    let exit = keeper.exited(worker(1, 1));
    assert!(matches!(exit.status, ExitStatus::Code(5)), "{exit:?}");
    assert_eq!(exit.left_behind, 0, "the sleep had the signal too");
    keeper.shutdown(0);
}

fn a_stopped_tree_dies(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), "sh -c 'echo $$; kill -STOP $$' & wait");
    let below: i32 = run.line().trim().parse().unwrap();
    let state = |pid: i32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    wait_until("it has stopped", SOON, || state(below).contains(") T"));
    signal(run.pid, SIGSTOP);
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    assert!(!lives(below));
    keeper.shutdown(0);
}

fn a_storm_of_forks_is_proven_dead(mut keeper: Keeper) {
    let Some(_limit) = PidsLimit::around(keeper.pid(), 200) else {
        missing("pids");
        return keeper.shutdown(0);
    };
    // Each runner starts its successor and ends: a scan of /proc mostly sees none of them.
    let runner = keeper.dir.path().join("runner");
    fs::write(&runner, "#!/bin/sh\n: storm\n\"$0\" &\nexit 0\n").unwrap();
    fs::set_permissions(&runner, fs::Permissions::from_mode(0o755)).unwrap();
    let name = runner.to_str().unwrap().to_owned();
    let storm = format!("for i in 1 2 3 4; do {name} & done; echo up");
    for (generation, ending) in [(1, "exit 0"), (2, "sleep 1000"), (3, "kill -9 $$")] {
        let run = keeper.run(worker(1, generation), &format!("{storm}; {ending}"));
        assert_eq!(run.line(), "up\n");
        if generation == 2 {
            keeper.order(&[Order::KillTree(run.worker)]);
        }
        let exit = keeper.exited(run.worker);
        assert!(exit.proof < Duration::from_secs(5), "{exit:?}");
        let runs = |pid: i32| {
            fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains(&name))
        };
        let pids = fs::read_dir("/proc").unwrap().flatten();
        let pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
        assert_eq!(pids.filter(|&pid| runs(pid) && pid != run.pid).count(), 0);
        println!("proof of a storm's end: {:?}, {} left behind", exit.proof, exit.left_behind);
    }
    keeper.shutdown(0);
}

fn a_tree_of_fifty_is_proven_dead(mut keeper: Keeper) {
    let deep = "n() { if [ $1 -gt 0 ]; then (n $(($1 - 1))); else echo up; sleep 1000; fi; }; \
                for i in $(seq 24); do setsid sleep 1000 & done; n 25; true";
    let run = keeper.run(worker(1, 1), deep);
    assert_eq!(run.line(), "up\n");
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    let exit = keeper.exited(worker(1, 1));
    // A shell may reap a killed child before the shell itself is killed.
    assert!(exit.left_behind >= 20, "{exit:?}");
    println!("proof of a tree's end: {:?}, {} below it", exit.proof, exit.left_behind);
    keeper.shutdown(0);
}

fn a_bomb_that_fills_its_limit_is_proven_dead(mut keeper: Keeper) {
    let Some(limit) = PidsLimit::around(keeper.pid(), 300) else {
        missing("pids");
        return keeper.shutdown(0);
    };
    for generation in [1, 2] {
        let run = keeper.run(worker(1, generation), "exec perl -e '$| = 1; print \"up\\n\"; fork while 1'");
        assert_eq!(run.line(), "up\n");
        wait_until("it has filled its limit", SOON, || limit.count() >= 295);
        match generation {
            1 => keeper.order(&[Order::KillTree(run.worker)]),
            _ => signal(run.pid, SIGKILL),
        }
        let exit = keeper.exited(run.worker);
        println!("proof of a bomb's end: {:?}, {} left behind", exit.proof, exit.left_behind);
        assert!(limit.count() < 5, "{}", limit.count());
    }
    keeper.shutdown(0);
}

/// A leader traced by its child: after a kill it stays a zombie that the keeper cannot reap until the tracer is dead.
const TRACED: &str = r#"exec python3 -c '
import ctypes, os, time
libc = ctypes.CDLL(None)
if os.fork() == 0:
    os.setsid()
    assert libc.ptrace(0x4206, os.getppid(), 0, 0) == 0
    print(os.getpid(), flush=True)
time.sleep(1000)
'"#;

fn a_leader_that_its_own_child_traces_is_proven_dead(mut keeper: Keeper) {
    for generation in [1, 2] {
        let run = keeper.run(worker(1, generation), TRACED);
        let tracer: i32 = run.line().trim().parse().unwrap();
        match generation {
            1 => keeper.order(&[Order::KillTree(run.worker)]),
            _ => keeper.order(&[Order::KillAt(run.worker, Some(clock::now()))]),
        }
        assert_eq!(keeper.exited(run.worker).status, KILLED);
        assert!(!lives(tracer));
    }
    keeper.shutdown(0);
}

fn orphans_of_a_traced_leader_count_for_it_though_it_is_reaped_late(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), &format!("{DAEMON}; {TRACED}"));
    let mut told = run.line();
    while told.lines().count() < 2 {
        told += &run.line();
    }
    let pids: Vec<i32> = told.lines().map(|line| line.parse().unwrap()).collect();
    let freezers: Option<Vec<Freezer>> = pids.iter().map(|pid| Freezer::around(*pid)).collect();
    let Some(mut freezers) = freezers else {
        missing("freezer");
        return keeper.shutdown(0);
    };
    keeper.order(&[Order::KillTree(run.worker)]);
    let stuck = |keeper: &mut Keeper| {
        let said = |report: &Report| match report {
            Report::Stuck(_, pid) => Some(Some(*pid)),
            Report::Exited { .. } => Some(None),
            _ => None,
        };
        keeper.expect(said).0
    };
    assert!(stuck(&mut keeper).is_some(), "the tracer lives, and the daemon");
    // Only after the death of the tracer can the keeper reap the leader.
    freezers.pop();
    assert_eq!(stuck(&mut keeper), Some(pids[0]), "the daemon lives");
    freezers.clear();
    assert_eq!(keeper.exited(run.worker).status, KILLED);
    keeper.shutdown(0);
}

#[test]
fn cgroups_nested_deeper_than_a_path_can_be_long_do_not_block_a_slot() {
    use nix::fcntl::{AT_FDCWD, OFlag, openat};
    use nix::sys::stat::{Mode, mkdirat};
    let (mut keeper, hello) = Keeper::start("");
    if !hello.cgroup {
        missing("cgroup v2");
        return keeper.shutdown(0);
    }
    let run = keeper.run(worker(1, 1), "echo up; sleep 1000");
    assert_eq!(run.line(), "up\n");
    let own = fs::read_to_string(format!("/proc/{}/cgroup", run.pid)).unwrap();
    let own = own.lines().find_map(|line| line.strip_prefix("0::")).unwrap().to_owned();
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|mount| format!("{mount}{own}"));
    let top = mounts.iter().find(|dir| std::path::Path::new(dir).is_dir()).unwrap();
    let open = OFlag::O_DIRECTORY | OFlag::O_CLOEXEC;
    let mut here = openat(AT_FDCWD, top.as_str(), open, Mode::empty()).unwrap();
    for _ in 0..300 {
        let name = "nested-by-the-job";
        mkdirat(&here, name, Mode::S_IRWXU).unwrap();
        here = openat(&here, name, open, Mode::empty()).unwrap();
    }
    // One process lives in the deepest cgroup.
    let below = keeper.run(worker(2, 1), "sleep 1000");
    let procs = openat(&here, "cgroup.procs", OFlag::O_WRONLY, Mode::empty()).unwrap();
    fs::File::from(procs).write_all(below.pid.to_string().as_bytes()).unwrap();
    keeper.order(&[Order::KillTree(run.worker)]);
    assert_eq!(keeper.exited(run.worker).status, KILLED);
    assert!(!lives(below.pid), "all that lives in its cgroup has ended");
    assert!(!std::path::Path::new(top).exists());
    keeper.exited(below.worker);
    keeper.shutdown(0);
}

fn the_fence_kills_while_the_supervisor_is_stopped(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), &format!("{DAEMON}; trap '' TERM; while :; do sleep 1; done"));
    let daemon: i32 = run.line().trim().parse().unwrap();
    let safe = keeper.run(worker(2, 1), "sleep 1000");
    let soon = clock::now() + Duration::from_millis(100);
    keeper.order(&[
        Order::KillAt(worker(1, 1), Some(soon + Duration::from_secs(1000))),
        Order::KillAt(worker(2, 1), Some(soon)),
        Order::KillAt(worker(1, 1), Some(soon)),
        Order::KillAt(worker(2, 1), None),
    ]);
    signal(keeper.supervisor, SIGSTOP);
    wait_until("the fence has killed it", SOON, || !lives(run.pid) && !lives(daemon));
    assert!(clock::now() >= soon);
    assert!(lives(safe.pid));
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    keeper.order(&[Order::KillTree(worker(2, 1))]);
    keeper.exited(worker(2, 1));
    signal(keeper.supervisor, nix::sys::signal::Signal::SIGCONT);
    keeper.shutdown(0);
}

fn the_fence_waits_once_if_the_keeper_was_stopped_itself(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), "sleep 1000");
    let soon = || clock::now() + Duration::from_secs(3);
    let stop_until_late = |keeper: &Keeper, at: model::Instant| {
        signal(keeper.pid(), SIGSTOP);
        wait_until("it is late", SOON, || clock::now() >= at + Duration::from_millis(2_200));
        signal(keeper.pid(), nix::sys::signal::Signal::SIGCONT);
    };
    let at = soon();
    keeper.order(&[Order::KillAt(run.worker, Some(at))]);
    keeper.run(worker(2, 1), "exit 0");
    keeper.exited(worker(2, 1));
    stop_until_late(&keeper, at);
    keeper.run(worker(3, 1), "exit 0");
    keeper.exited(worker(3, 1));
    assert!(lives(run.pid), "the supervisor may be about to renew its lease");
    keeper.order(&[Order::KillAt(run.worker, Some(soon()))]);
    assert_eq!(keeper.exited(run.worker).status, KILLED);
    keeper.shutdown(0);
}

fn what_a_dead_supervisor_leaves_is_killed_and_counts_for_no_life(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), "echo up; exec sleep 1000");
    run.line();
    // The keeper learns of both deaths at once.
    signal(keeper.pid(), SIGSTOP);
    signal(run.pid, SIGTERM);
    keeper.exit_with(support::LEAVES);
    wait_until("both have ended", SOON, || !lives(run.pid) && !lives(keeper.supervisor));
    let left = *keeper.children().last().unwrap();
    assert!(lives(left));
    signal(keeper.pid(), nix::sys::signal::Signal::SIGCONT);
    keeper.next_supervisor();
    let (exit, _) = keeper.left(worker(1, 1));
    let status = ExitStatus::Signal { signal: libc::SIGTERM, core: false };
    assert_eq!((exit.status, exit.left_behind, lives(left)), (status, 0, false));
    keeper.shutdown(0);
}

fn supervisor_death_kills_its_trees_and_the_next_one_gets_unread_exits(mut keeper: Keeper) {
    let ended = keeper.run(worker(1, 6), "echo kept; exit 4");
    keeper.exited(ended.worker);
    let settled = keeper.run(worker(2, 7), "exit 0");
    keeper.exited(settled.worker);
    let running = keeper.run(worker(3, 8), &format!("{DAEMON}; while :; do sleep 1; done"));
    let daemon: i32 = running.line().trim().parse().unwrap();
    // The keeper reads the supervisor's last order even if the supervisor dies right after it.
    signal(keeper.pid(), SIGSTOP);
    keeper.order(&[Order::Forget(settled.worker)]);
    signal(keeper.supervisor, SIGKILL);
    signal(keeper.pid(), nix::sys::signal::Signal::SIGCONT);
    let hello = keeper.next_supervisor();
    assert!(!lives(daemon) && !lives(running.pid));
    assert_eq!((hello.restarts, hello.generation, hello.pid), (1, 8, keeper.pid()));
    assert_eq!(hello.ended, Some(KILLED));
    let (exit, fds) = keeper.left(ended.worker);
    assert_eq!(exit.status, ExitStatus::Code(4));
    drop(ended);
    assert_eq!(read_until(&fds[1], |text| text.ends_with('\n')), "kept\n");
    keeper.order(&[Order::Forget(worker(1, 6)), Order::Spawn(worker(1, 9))]);
    // The keeper reports SIGCONT as a request to resume, to this supervisor or to the one before.
    let told = |report: &Report| (*report != Report::Asked(Ask::Resume)).then(|| report.clone());
    let (next, _) = keeper.expect(told);
    assert!(matches!(next, Report::Started(id, _) if id == worker(1, 9)), "{next:?}");
    keeper.shutdown(0);
}

fn keeper_death_kills_its_children(mut keeper: Keeper) {
    let tag = keeper::tag(keeper.pid()).unwrap();
    let sweeper = keeper::Sweeper::new(keeper.pid(), &tag).unwrap();
    let parked = keeper.park(worker(1, 1));
    let running = keeper.park(worker(2, 1));
    let mut order = shell(&format!("{DAEMON}; while :; do sleep 1; done"));
    order.env.push(format!("{}={tag}", keeper::TAG_VARIABLE).into_bytes());
    running.exec(&order);
    let daemon: i32 = running.line().trim().parse().unwrap();
    signal(keeper.pid(), SIGKILL);
    assert_eq!(keeper.wait().signal(), Some(libc::SIGKILL));
    let left = sweeper.sweep(SOON).left;
    assert!(left.is_empty(), "{left:?}");
    wait_until("all are dead", SOON, || ![parked.pid, running.pid, daemon].into_iter().any(lives));
}

fn unkillable_process_is_reported_stuck_and_blocks_no_other_life(mut keeper: Keeper) {
    let stuck = |keeper: &mut Keeper, worker, pid| {
        keeper.expect(|report| (*report == Report::Stuck(worker, pid)).then_some(()));
    };
    let leader = keeper.run(worker(1, 1), &format!("{DAEMON}; sleep 1000"));
    let below: i32 = leader.line().trim().parse().unwrap();
    let left = keeper.run(worker(2, 1), &format!("{DAEMON}; sleep 1000"));
    let daemon: i32 = left.line().trim().parse().unwrap();
    let Some(frozen) = Freezer::around(leader.pid) else {
        missing("freezer");
        return keeper.shutdown(0);
    };
    keeper.order(&[Order::KillTree(leader.worker)]);
    stuck(&mut keeper, leader.worker, leader.pid);
    assert!(!lives(below), "what can die has died");
    let other = keeper.run(worker(3, 1), "exit 3");
    assert_eq!(keeper.exited(other.worker).status, ExitStatus::Code(3));

    let Some(stray) = Freezer::around(daemon) else { panic!("one freezer was made, the other not") };
    keeper.order(&[Order::KillTree(left.worker)]);
    stuck(&mut keeper, left.worker, daemon);
    let other = keeper.run(worker(3, 2), &format!("{DAEMON}; exit 3"));
    let exit = keeper.exited(other.worker);
    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 1));
    drop((frozen, stray));
    assert_eq!(keeper.exited(leader.worker).status, KILLED);
    keeper.exited(left.worker);
    keeper.shutdown(0);
}

fn unkillable_process_beside_many_lives_blocks_no_later_one(mut keeper: Keeper) {
    let many: Vec<_> = (10..110).map(|slot| keeper.park(worker(slot, 1))).collect();
    let left = keeper.run(worker(1, 1), &format!("{DAEMON}; sleep 1000"));
    let daemon: i32 = left.line().trim().parse().unwrap();
    let Some(frozen) = Freezer::around(daemon) else {
        missing("freezer");
        return keeper.shutdown(0);
    };
    keeper.order(&[Order::KillTree(left.worker)]);
    keeper.expect(|report| (*report == Report::Stuck(left.worker, daemon)).then_some(()));
    let other = keeper.run(worker(2, 1), &format!("{DAEMON}; exit 3"));
    let exit = keeper.exited(other.worker);
    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 1));
    drop(frozen);
    keeper.exited(left.worker);
    assert!(many.iter().all(|parked| lives(parked.pid)));
    keeper.shutdown(0);
}

fn keeper_reports_no_exit_while_a_daemon_of_the_life_is_alive(mut keeper: Keeper) {
    let leader = keeper.run(worker(1, 1), "echo up; sleep 1000");
    leader.line();
    let Some(frozen) = Freezer::around(leader.pid) else {
        missing("freezer");
        return keeper.shutdown(0);
    };
    let others: Vec<_> =
        (2..10).map(|slot| keeper.run(worker(slot, 1), &format!("{DAEMON}; sleep 1000"))).collect();
    let daemons = others.iter().map(|run| Freezer::around(run.line().trim().parse().unwrap()).unwrap());
    let daemons: Vec<Freezer> = daemons.collect();
    // From here on the keeper searches for strays at every event.
    keeper.order(&[Order::KillTree(leader.worker)]);
    for other in &others {
        keeper.order(&[Order::KillTree(other.worker)]);
    }
    for other in &others {
        let said = |report: &Report| match report {
            Report::Stuck(worker, _) => (*worker == other.worker).then_some(None),
            Report::Exited { worker, exit, .. } => (*worker == other.worker).then(|| Some(exit.clone())),
            _ => None,
        };
        assert_eq!(keeper.expect(said).0, None, "its daemon lives");
    }
    drop((frozen, daemons));
    // Each life left a daemon, and a sleep unless that was killed first. Where several end at once the keeper cannot
    // tell which life left which process.
    let left_behind: u32 = others.iter().map(|other| keeper.exited(other.worker).left_behind).sum();
    assert!((8..=16).contains(&left_behind), "{left_behind}");
    keeper.exited(leader.worker);
    keeper.shutdown(0);
}
