//! The real keeper with real children; the test speaks for the supervisor.
#![allow(unsafe_code, missing_docs, clippy::unwrap_used, clippy::wildcard_enum_match_arm)]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use nix::sys::signal::Signal::{SIGKILL, SIGSTOP, SIGTERM};
use support::{Keeper, PidsLimit, SOON, lives, program, read_until, shell, signal, wait_until, worker};
use taskvisor::clock;
use taskvisor::model::{ExitStatus, SlotId, WorkerId};
use taskvisor::wire::keeper::{Ask, Order, Report, Step};
use taskvisor::wire::program::{Failed, Identity, Program, Step as ProgramStep};

const KILLED: ExitStatus = ExitStatus::Signal { signal: libc::SIGKILL, core: false };

/// Not a test: what the keeper starts as its supervisor.
#[test]
fn relay_supervisor() {
    support::relay();
}

/// Each story runs with and without cgroups, and says when it could not.
macro_rules! stories {
    ($($story:ident)*) => {
        mod with_cgroup { $( #[test] fn $story() {
            let (keeper, hello) = super::Keeper::start("");
            if hello.cgroup { super::$story(keeper) } else {
                println!("SKIPPED {}: no cgroup v2 to write to", stringify!($story));
                keeper.shutdown(0);
            }
        } )* }
        mod without_cgroup { $( #[test] fn $story() {
            let (keeper, hello) = super::Keeper::start("cgroup");
            assert!(!hello.cgroup);
            super::$story(keeper)
        } )* }
    };
}

stories! {
    a_parked_child_is_a_session_with_four_descriptors_and_default_signals
    a_program_runs_and_its_output_and_exit_arrive
    what_cannot_be_executed_is_said
    a_program_runs_as_the_user_it_is_given
    a_daemon_left_behind_is_killed_and_counted
    who_ignores_term_dies_by_kill_tree
    terminate_reaches_the_whole_group
    a_stopped_tree_dies
    a_storm_of_forks_is_proven_dead
    a_tree_of_fifty_is_proven_dead
    the_fence_kills_while_the_supervisor_is_stopped
    a_killed_supervisor_takes_its_trees_along_and_the_next_hears_of_what_had_ended
    a_killed_keeper_takes_its_children_along
    slots_are_independent
    signals_are_passed_on
    what_cannot_die_is_said_to_be_stuck_and_holds_up_nobody_else
    what_a_template_forks_is_a_life_like_any_other
    a_child_that_speaks_and_dies_has_started_and_then_exited
    a_template_that_may_not_fork_into_a_cgroup_forks_beside_it
    a_fork_that_brings_no_child_is_said
    who_says_a_wrong_number_is_killed
    a_life_that_is_given_up_takes_its_child_along_whenever_it_comes
    the_death_of_a_template_gives_up_the_unborn_and_spares_the_living
    a_template_that_does_not_read_takes_no_more_orders
    a_storm_of_births_is_in_nobodys_way_and_leaves_nothing
    a_killed_keeper_takes_the_children_of_its_templates_along
    a_killed_supervisor_takes_templates_and_their_children_along
}

/// Processes in here do not even die of SIGKILL.
struct Freezer(std::path::PathBuf);

impl Freezer {
    fn around(pid: i32) -> Option<Freezer> {
        let freezer = Freezer(std::path::PathBuf::from(format!("/sys/fs/cgroup/freezer/tv-test-{pid}")));
        fs::create_dir(&freezer.0).ok()?;
        fs::write(freezer.0.join("cgroup.procs"), pid.to_string()).ok()?;
        fs::write(freezer.0.join("freezer.state"), "FROZEN").ok()?;
        Some(freezer)
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        _ = fs::write(self.0.join("freezer.state"), "THAWED");
        let dir = self.0.clone();
        wait_until("the freezer is empty", SOON, || fs::remove_dir(&dir).is_ok());
    }
}

fn what_cannot_die_is_said_to_be_stuck_and_holds_up_nobody_else(mut keeper: Keeper) {
    let stuck = |keeper: &mut Keeper, worker, pid| {
        keeper.expect(|report| (*report == Report::Stuck(worker, pid)).then_some(()));
    };
    let leader = keeper.run(worker(1, 1), &format!("{DAEMON}; sleep 1000"));
    let below: i32 = leader.line().trim().parse().unwrap();
    let left = keeper.run(worker(2, 1), &format!("{DAEMON}; sleep 1000"));
    let daemon: i32 = left.line().trim().parse().unwrap();
    let Some(frozen) = Freezer::around(leader.pid) else {
        println!("SKIPPED: no freezer");
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

fn a_parked_child_is_a_session_with_four_descriptors_and_default_signals(mut keeper: Keeper) {
    let parked = keeper.park(worker(1, 1));
    let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", parked.pid)).unwrap();
    wait_until("it is parked", SOON, || of("comm") == "tv-parked\n" && of("wchan").contains("unix"));
    let stat = of("stat");
    let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
    let pid = parked.pid.to_string();
    assert_eq!((fields[2], fields[3]), (pid.as_str(), pid.as_str()), "group and session");
    let mut fds: Vec<_> = fs::read_dir(format!("/proc/{pid}/fd"))
        .unwrap()
        .map(|fd| fd.unwrap().file_name().into_string().unwrap())
        .collect();
    fds.sort();
    assert_eq!(fds, ["0", "1", "2", "3"]);
    for line in of("status").lines().filter(|line| line.starts_with("Sig") && !line.starts_with("SigQ")) {
        assert_eq!(line.split_whitespace().nth(1), Some("0000000000000000"), "{line}");
    }
    drop(parked);
    // The keeper's duplicate keeps the socket open: only a forgotten or killed life ends.
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    keeper.shutdown(0);
}

fn a_program_runs_and_its_output_and_exit_arrive(mut keeper: Keeper) {
    let run =
        keeper.run(worker(1, 1), "echo out; echo err >&2; umask; pwd; ls /proc/self/fd | wc -l; exit 7");
    let exit = keeper.exited(worker(1, 1));
    assert_eq!((exit.status, exit.left_behind, exit.oom), (ExitStatus::Code(7), 0, false));
    assert!(exit.usage.max_rss > 0);
    assert_eq!(read_until(&run.out, |text| text.ends_with("4\n")), "out\n0022\n/\n4\n");
    assert_eq!(read_until(&run.err, |text| text.ends_with('\n')), "err\n");

    let speaker = keeper.park(worker(1, 2));
    let mut order = program(&["sh", "-c", "echo hi >&3; read line; echo got $line"]);
    (order.speaks, order.stdin) = (true, true);
    let (read, write) = nix::unistd::pipe().unwrap();
    fs::File::from(write).write_all(b"data\n").unwrap();
    let message = order.encode();
    let control = [nix::sys::socket::ControlMessage::ScmRights(&[std::os::fd::AsRawFd::as_raw_fd(&read)])];
    let part = [std::io::IoSlice::new(&message)];
    let socket = std::os::fd::AsRawFd::as_raw_fd(&speaker.socket);
    nix::sys::socket::sendmsg::<()>(socket, &part, &control, nix::sys::socket::MsgFlags::empty(), None)
        .unwrap();
    assert_eq!(read_until(&speaker.socket, |text| text.ends_with('\n')), "hi\n");
    assert_eq!(speaker.line(), "got data\n");
    assert_eq!(keeper.exited(worker(1, 2)).status, ExitStatus::Code(0));
    keeper.order(&[Order::Forget(worker(1, 1)), Order::Forget(worker(1, 2))]);
    keeper.shutdown(9);
}

fn what_cannot_be_executed_is_said(mut keeper: Keeper) {
    let plain = keeper.dir.path().join("plain");
    fs::write(&plain, "not a program").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let mut nowhere = shell("true");
    nowhere.cwd = b"/nonexistent".to_vec();
    let cases = [
        (program(&["no-such-program"]), ProgramStep::Exec, libc::ENOENT, 127),
        (program(&[plain.to_str().unwrap()]), ProgramStep::Exec, libc::EACCES, 126),
        (nowhere, ProgramStep::Chdir, libc::ENOENT, 126),
        (program(&[]), ProgramStep::Order, libc::EBADMSG, 126),
    ];
    for (generation, (order, step, errno, code)) in (1..).zip(cases) {
        let parked = keeper.park(worker(1, generation));
        parked.exec(&order);
        assert_eq!(keeper.exited(parked.worker).status, ExitStatus::Code(code));
        assert_eq!(parked.failure(), Some(Failed { step, errno }));
    }
    keeper.shutdown(0);
}

fn a_program_runs_as_the_user_it_is_given(mut keeper: Keeper) {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: another user needs root");
        return keeper.shutdown(0);
    }
    let home = keeper.dir.path().join("home");
    fs::create_dir(&home).unwrap();
    let script = home.join("script");
    fs::write(&script, "#!/bin/sh\nid -u; pwd; echo by name >/dev/stdout; kill -STOP $$; exit 3\n").unwrap();
    for (path, mode) in [(&script, 0o700), (&home, 0o700)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }
    for path in [&script, &home] {
        std::os::unix::fs::chown(path, Some(4711), Some(4712)).unwrap();
    }
    let parked = keeper.park(worker(1, 1));
    let mut order = program(&["./script"]);
    order.cwd = home.to_str().unwrap().as_bytes().to_vec();
    order.identity = Some(Identity { uid: 4711, gid: 4712, groups: vec![4713, 4714] });
    parked.exec(&order);
    let expected = format!("4711\n{}\nby name\n", home.display());
    assert_eq!(read_until(&parked.out, |text| text.ends_with("name\n")), expected);
    let read = || fs::read_to_string(format!("/proc/{}/status", parked.pid)).unwrap();
    wait_until("it has stopped", SOON, || read().contains("(stopped)"));
    let status = read();
    let line = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().map(str::to_owned).collect::<Vec<_>>().join(" ")
    };
    assert_eq!([line("Uid:"), line("Gid:")], ["4711 4711 4711 4711", "4712 4712 4712 4712"]);
    assert_eq!([line("Groups:"), line("CapPrm:")], ["4713 4714", "0000000000000000"]);
    signal(parked.pid, nix::sys::signal::Signal::SIGCONT);
    let exit = keeper.exited(parked.worker);
    assert_eq!(exit.status, ExitStatus::Code(3));
    assert!(exit.usage.max_rss > 0);

    let closed = keeper.park(worker(1, 2));
    order.identity = Some(Identity { uid: 4715, gid: 4715, groups: vec![] });
    closed.exec(&order);
    assert_eq!(keeper.exited(closed.worker).status, ExitStatus::Code(126));
    assert_eq!(closed.failure(), Some(Failed { step: ProgramStep::Chdir, errno: libc::EACCES }));

    let mut endless = shell(&format!("{DAEMON}; while :; do sleep 1; done"));
    endless.identity = order.identity;
    let killed = keeper.park(worker(1, 3));
    killed.exec(&endless);
    let daemon: i32 = killed.line().trim().parse().unwrap();
    keeper.order(&[Order::KillTree(killed.worker)]);
    assert_eq!(keeper.exited(killed.worker).status, KILLED);
    assert!(!lives(daemon));
    endless.argv = shell("echo up; while :; do sleep 1; done").argv;
    let bound = keeper.park(worker(1, 5));
    bound.exec(&endless);
    assert_eq!(bound.line(), "up\n");
    let tag = taskvisor::keeper::tag(keeper.pid()).unwrap();
    let sweeper = taskvisor::keeper::Sweeper::new(keeper.pid(), &tag);
    signal(keeper.pid(), SIGKILL);
    assert_eq!(keeper.wait().signal(), Some(libc::SIGKILL));
    wait_until("it has died with its keeper", SOON, || !lives(bound.pid));
    assert!(sweeper.sweep(SOON).1);
}

#[test]
fn only_root_may_give_a_program_another_user() {
    let plain = ["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups"];
    if !nix::unistd::geteuid().is_root() {
        return println!("SKIPPED: dropping to a plain user needs root");
    }
    let (mut keeper, _) = Keeper::start_with("cgroup", &plain, &[]);
    let own = Identity { uid: 4711, gid: 4711, groups: vec![] };
    let other = Identity { uid: 4712, ..own.clone() };
    let more = Identity { groups: vec![4712], ..own.clone() };
    for (generation, (identity, code)) in (1..).zip([(own, 3), (other, 126), (more, 126)]) {
        let parked = keeper.park(worker(1, generation));
        let order = Program { identity: Some(identity), ..shell("exit 3") };
        parked.exec(&order);
        assert_eq!(keeper.exited(parked.worker).status, ExitStatus::Code(code));
        let refused = Failed { step: ProgramStep::Identity, errno: libc::EPERM };
        assert_eq!(parked.failure(), (code == 126).then_some(refused));
    }
    // What a template forks needs no rights either.
    keeper.template(TEMPLATE, &["forks", "has threads"]);
    for generation in [4, 5] {
        let job = keeper.fork(worker(1, generation), TEMPLATE);
        job.job("exit 3");
        assert_eq!(keeper.exited(job.worker).status, ExitStatus::Code(3));
    }
    keeper.shutdown(0);
}

/// Its output does not hold ours, and it is in a session of its own, under init as far as it can tell.
const DAEMON: &str = "setsid sh -c 'setsid sleep 1000 >/dev/null & echo $!'";

fn a_daemon_left_behind_is_killed_and_counted(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), &format!("{DAEMON}; exit 0"));
    let daemon: i32 = run.line().trim().parse().unwrap();
    let exit = keeper.exited(worker(1, 1));
    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(0), 1));
    assert!(!lives(daemon));
    assert!(exit.proof < Duration::from_secs(2), "{:?}", exit.proof);
    keeper.shutdown(0);
}

fn who_ignores_term_dies_by_kill_tree(mut keeper: Keeper) {
    let run = keeper.run(worker(1, 1), &format!("trap '' TERM; {DAEMON}; while :; do sleep 1; done"));
    let daemon: i32 = run.line().trim().parse().unwrap();
    keeper.order(&[Order::Terminate(worker(1, 1)), Order::Terminate(worker(9, 9))]);
    assert!(lives(daemon) && lives(run.pid));
    keeper.order(&[Order::KillTree(worker(1, 1)), Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    assert!(!lives(daemon) && !lives(run.pid));
    keeper.shutdown(0);
}

fn terminate_reaches_the_whole_group(mut keeper: Keeper) {
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
        println!("SKIPPED: a storm needs a pids limit around it");
        return keeper.shutdown(0);
    };
    // Each runner starts its successor and ends: a scan of /proc sees nobody most of the time.
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
    // A shell whose child was killed first may have reaped it before its own turn came.
    assert!(exit.left_behind >= 20, "{exit:?}");
    println!("proof of a tree's end: {:?}, {} below it", exit.proof, exit.left_behind);
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

fn a_killed_supervisor_takes_its_trees_along_and_the_next_hears_of_what_had_ended(mut keeper: Keeper) {
    let ended = keeper.run(worker(1, 6), "echo kept; exit 4");
    keeper.exited(ended.worker);
    let settled = keeper.run(worker(2, 7), "exit 0");
    keeper.exited(settled.worker);
    let running = keeper.run(worker(3, 8), &format!("{DAEMON}; while :; do sleep 1; done"));
    let daemon: i32 = running.line().trim().parse().unwrap();
    // Its last word is heard even if it dies right behind it.
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
    assert!(matches!(keeper.report().0, Report::Started(id, _) if id == worker(1, 9)));
    keeper.shutdown(0);
}

fn a_killed_keeper_takes_its_children_along(mut keeper: Keeper) {
    let tag = taskvisor::keeper::tag(keeper.pid()).unwrap();
    let sweeper = taskvisor::keeper::Sweeper::new(keeper.pid(), &tag);
    let parked = keeper.park(worker(1, 1));
    let running = keeper.park(worker(2, 1));
    let mut order = shell(&format!("{DAEMON}; while :; do sleep 1; done"));
    order.env.push(format!("{}={tag}", taskvisor::keeper::TAG_VARIABLE).into_bytes());
    running.exec(&order);
    let daemon: i32 = running.line().trim().parse().unwrap();
    signal(keeper.pid(), SIGKILL);
    assert_eq!(keeper.wait().signal(), Some(libc::SIGKILL));
    let (_, clean) = sweeper.sweep(SOON);
    assert!(clean);
    wait_until("all are dead", SOON, || ![parked.pid, running.pid, daemon].into_iter().any(lives));
}

fn slots_are_independent(mut keeper: Keeper) {
    let first = keeper.run(worker(1, 1), "echo up; sleep 1000");
    let second = keeper.run(worker(2, 2), "echo up; sleep 1000");
    assert_eq!((first.line(), second.line()), ("up\n".into(), "up\n".into()));
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    assert!(lives(second.pid));
    keeper.order(&[Order::Forget(worker(1, 1)), Order::Forget(worker(2, 2)), Order::Spawn(worker(2, 2))]);
    assert!(matches!(keeper.report().0, Report::SpawnFailed(_, Step::Fork, libc::EEXIST)));
    let again = keeper.park(worker(1, 3));
    assert!(lives(second.pid) && lives(again.pid));
    keeper.shutdown(0);
    assert!(!lives(second.pid) && !lives(again.pid));
}

fn signals_are_passed_on(mut keeper: Keeper) {
    for (number, ask) in [
        (SIGTERM, Ask::Terminate),
        (nix::sys::signal::Signal::SIGINT, Ask::Interrupt),
        (nix::sys::signal::Signal::SIGQUIT, Ask::Quit),
        (nix::sys::signal::Signal::SIGHUP, Ask::Hangup),
        (nix::sys::signal::Signal::SIGUSR1, Ask::Reopen),
        (nix::sys::signal::Signal::SIGUSR2, Ask::Pause),
        (nix::sys::signal::Signal::SIGCONT, Ask::Resume),
        (nix::sys::signal::Signal::SIGTTIN, Ask::Grow),
        (nix::sys::signal::Signal::SIGTTOU, Ask::Shrink),
    ] {
        signal(keeper.pid(), number);
        assert_eq!(keeper.report().0, Report::Asked(ask));
    }
    keeper.shutdown(0);
}

const TEMPLATE: WorkerId = WorkerId { slot: SlotId { pool: 1, index: 0 }, generation: 1 };

fn what_a_template_forks_is_a_life_like_any_other(mut keeper: Keeper) {
    let inside = ["forks", "has threads"];
    let ways = [inside, ["knows no cgroup", "has threads and knows no cgroup"]].concat();
    let template = keeper.template(TEMPLATE, &[&ways[..], &["forks"]].concat());
    for (generation, way) in (1..).zip(ways) {
        let job = keeper.fork(worker(1, generation), TEMPLATE);
        job.job(&format!("echo ready; read line <&3; echo err >&2; {DAEMON}; exit 7"));
        assert_eq!(job.line(), "ready\n");
        let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", job.pid)).unwrap();
        let stat = of("stat");
        let fields: Vec<i32> = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .skip(1)
            .map_while(|field| field.parse().ok())
            .collect();
        assert_eq!(fields[..3], [keeper.pid(), job.pid, job.pid], "parent, group and session: {way}");
        let (born, own) = cgroups_of_child(job.pid);
        assert_eq!(keeper.cgroup, own.ends_with(&format!("/{}", job.worker)), "{own}");
        assert_eq!(
            born == own,
            !keeper.cgroup || inside.contains(&way),
            "{way}: born in {born}, now in {own}"
        );
        job.job("");
        let daemon: i32 = job.line().trim().parse().unwrap();
        let exit = keeper.exited(job.worker);
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(7), 1), "{way}");
        assert!(exit.usage.max_rss > 0 && !lives(daemon));
        assert_eq!(read_until(&job.err, |text| text.ends_with('\n')), "err\n");
    }
    let fenced = keeper.fork(worker(2, 5), TEMPLATE);
    fenced.job(&format!("{DAEMON}; sleep 1000"));
    let daemon: i32 = fenced.line().trim().parse().unwrap();
    keeper.order(&[Order::KillAt(fenced.worker, Some(clock::now()))]);
    assert_eq!(keeper.exited(fenced.worker).status, KILLED);
    assert!(!lives(daemon) && lives(template.pid));
    let idle = keeper.fork(worker(3, 6), TEMPLATE);
    assert!(lives(idle.pid));
    keeper.shutdown(0);
    assert!(!lives(idle.pid) && !lives(template.pid));
}

fn a_child_that_speaks_and_dies_has_started_and_then_exited(mut keeper: Keeper) {
    keeper.template(TEMPLATE, &["speaks and dies"]);
    for round in 0..20 {
        let workers: Vec<WorkerId> = (1..=4).map(|index| worker(index, round + 1)).collect();
        keeper.order(&workers.iter().map(|id| Order::Fork(*id, TEMPLATE)).collect::<Vec<_>>());
        let (mut started, mut ended) = (Vec::new(), Vec::new());
        while ended.len() < workers.len() {
            match keeper.report().0 {
                Report::Started(id, _) => started.push(id),
                Report::Exited(id, exit) => {
                    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(6), 0));
                    assert!(started.contains(&id) && exit.usage.max_rss > 0);
                    ended.push(id);
                }
                other => panic!("{other:?}"),
            }
        }
        started.sort();
        assert_eq!(started, workers);
    }
    assert_eq!(keeper.children().len(), 2);
    keeper.shutdown(0);
}

/// Where a child was born, as far as it knows, and where it is.
fn cgroups_of_child(pid: i32) -> (String, String) {
    let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let (environ, cgroup) = (of("environ"), of("cgroup"));
    let born = environ.split('\0').find_map(|entry| entry.strip_prefix("BORN="));
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    (born.unwrap_or_default().into(), own.unwrap_or_default().into())
}

fn a_template_that_may_not_fork_into_a_cgroup_forks_beside_it(mut keeper: Keeper) {
    if !nix::unistd::geteuid().is_root() {
        println!("SKIPPED: another user needs root");
        return keeper.shutdown(0);
    }
    keeper.template(TEMPLATE, &["has no rights any more"]);
    for generation in [1, 2] {
        let job = keeper.fork(worker(1, generation), TEMPLATE);
        job.job(&format!("id -u; read line <&3; {DAEMON}; exit 3"));
        assert_eq!(job.line(), "4711\n");
        let (born, own) = cgroups_of_child(job.pid);
        assert_eq!(born != own && own.ends_with(&format!("/{}", job.worker)), keeper.cgroup, "{born} {own}");
        job.job("");
        let daemon: i32 = job.line().trim().parse().unwrap();
        let exit = keeper.exited(job.worker);
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 1));
        assert!(!lives(daemon));
    }
    keeper.shutdown(0);
}

#[test]
fn without_clone3_a_templates_child_is_moved_into_its_cgroup() {
    let (mut keeper, hello) = Keeper::start("clone3");
    if !hello.cgroup {
        println!("SKIPPED: no cgroup v2 to write to");
        return keeper.shutdown(0);
    }
    keeper.template(TEMPLATE, &["forks"]);
    let job = keeper.fork(worker(1, 1), TEMPLATE);
    job.job(&format!("echo up; read line <&3; {DAEMON}; exit 3"));
    assert_eq!(job.line(), "up\n");
    let (born, own) = cgroups_of_child(job.pid);
    assert!(born != own && own.ends_with(&format!("/{}", job.worker)), "{born} {own}");
    job.job("");
    let exit = keeper.exited(job.worker);
    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 1));
    keeper.shutdown(0);
}

#[test]
fn the_cgroup_of_a_life_that_never_began_is_cleared_and_removed() {
    let (mut keeper, hello) = Keeper::start("");
    if !hello.cgroup {
        println!("SKIPPED: no cgroup v2 to write to");
        return keeper.shutdown(0);
    }
    let ways = ["fails", "fails and leaves another there", "mute", "mute", "leaves"];
    let template = keeper.template(TEMPLATE, &ways);
    let dir = support::cgroups_of(keeper.pid()).remove(0);
    let names = || {
        let entries = fs::read_dir(&dir).unwrap().flatten().filter(|entry| entry.path().is_dir());
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    for generation in [1, 2] {
        keeper.order(&[Order::Fork(worker(1, generation), TEMPLATE)]);
        assert_eq!(keeper.failed(worker(1, generation)), (Step::Fork, libc::EAGAIN));
    }
    let run = keeper.run(worker(2, 1), "exit 3");
    assert_eq!(keeper.exited(run.worker).status, ExitStatus::Code(3));
    let children = || fs::read_to_string(format!("/proc/{0}/task/{0}/children", template.pid)).unwrap();
    let is_dead =
        |pid: &str| !fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
    wait_until("the squatter is dead", SOON, || children().split_whitespace().all(is_dead));
    for generation in [3, 4] {
        keeper.order(&[Order::Fork(worker(1, generation), TEMPLATE)]);
        wait_until("it is born", SOON, || keeper.children().len() == 3);
        if generation == 3 {
            keeper.order(&[Order::KillTree(worker(1, generation))]);
            assert_eq!(keeper.failed(worker(1, generation)), (Step::Template, libc::ETIMEDOUT));
            wait_until("only the template has a cgroup", SOON, || names() == [TEMPLATE.to_string()]);
        }
    }
    keeper.order(&[Order::Fork(worker(1, 5), TEMPLATE)]);
    for generation in [4, 5] {
        assert_eq!(keeper.failed(worker(1, generation)), (Step::Template, libc::ECHILD));
    }
    assert_eq!(keeper.exited(TEMPLATE).status, ExitStatus::Code(7));
    wait_until("nothing has a cgroup", SOON, || names().is_empty());
    keeper.shutdown(0);
}

fn a_fork_that_brings_no_child_is_said(mut keeper: Keeper) {
    let stranger = worker(9, 9);
    keeper.order(&[Order::Fork(worker(1, 1), stranger)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Template, libc::ESRCH));
    let plain = keeper.park(worker(9, 1));
    keeper.order(&[Order::Fork(worker(1, 1), plain.worker)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Template, libc::ESRCH));

    let template = keeper.template(TEMPLATE, &["fails", "fails", "dies unheard", "forks"]);
    keeper.order(&[Order::Fork(worker(1, 1), TEMPLATE)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Fork, libc::EAGAIN));
    // It may say so of a life that was given up, too.
    signal(template.pid, SIGSTOP);
    keeper.order(&[Order::Fork(worker(4, 1), TEMPLATE), Order::KillTree(worker(4, 1))]);
    assert_eq!(keeper.failed(worker(4, 1)), (Step::Template, libc::ETIMEDOUT));
    signal(template.pid, nix::sys::signal::Signal::SIGCONT);
    keeper.order(&[Order::Fork(worker(1, 1), TEMPLATE), Order::Fork(worker(1, 1), TEMPLATE)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Fork, libc::EEXIST));
    wait_until("it has died unheard", SOON, || keeper.children().len() == 3);
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Template, libc::ETIMEDOUT));
    let job = keeper.fork(worker(1, 2), TEMPLATE);
    job.job("exit 3");
    assert_eq!(keeper.exited(job.worker).status, ExitStatus::Code(3));

    // A program that does not speak has no socket of either kind.
    keeper.order(&[Order::Template(worker(8, 1))]);
    let mute = keeper.started(worker(8, 1));
    mute.exec(&shell("echo up; sleep 1000"));
    assert_eq!(mute.line(), "up\n");
    assert!(fs::read_link(format!("/proc/{}/fd/4", mute.pid)).is_err());
    keeper.order(&[Order::Fork(worker(1, 3), mute.worker)]);
    assert_eq!(keeper.failed(worker(1, 3)), (Step::Template, libc::EPIPE));
    keeper.shutdown(0);
}

fn who_says_a_wrong_number_is_killed(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["lies", "repeats itself", "lets a grandchild speak", "forks"]);
    let alone = [keeper.supervisor, template.pid];
    keeper.order(&[Order::Fork(worker(1, 1), TEMPLATE)]);
    let other = keeper.fork(worker(1, 2), TEMPLATE);
    assert_eq!(keeper.exited(other.worker).status, KILLED, "it was heard, and heard again");
    wait_until("the liar is dead", SOON, || keeper.children() == alone);

    keeper.order(&[Order::Fork(worker(1, 3), TEMPLATE)]);
    let bystander = keeper.fork(worker(1, 4), TEMPLATE);
    assert_eq!(keeper.children().len(), 4, "whoever let another speak has said nothing wrong");
    for id in [worker(1, 1), worker(1, 3)] {
        keeper.order(&[Order::KillTree(id)]);
        assert_eq!(keeper.failed(id), (Step::Template, libc::ETIMEDOUT));
    }
    wait_until("the silent one is dead", SOON, || keeper.children().len() == 3);
    bystander.job("exit 3");
    let exit = keeper.exited(bystander.worker);
    assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 0));
    keeper.shutdown(0);
}

fn a_life_that_is_given_up_takes_its_child_along_whenever_it_comes(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["mute", "mute", "forks"]);
    let give_up = |keeper: &mut Keeper, id| {
        keeper.order(&[Order::KillTree(id)]);
        assert_eq!(keeper.failed(id), (Step::Template, libc::ETIMEDOUT));
    };
    let mut born = Vec::new();
    for generation in [1, 2] {
        keeper.order(&[Order::Fork(worker(1, generation), TEMPLATE)]);
        wait_until("it is born", SOON, || keeper.children().len() == 3 + born.len());
        born.extend(keeper.children().last().copied());
        // An end that is proven looks at every child.
        let other = keeper.run(worker(2, generation), "exit 3");
        let exit = keeper.exited(other.worker);
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 0));
    }
    // That another life is still awaited saves only who may be its child.
    give_up(&mut keeper, worker(1, 1));
    wait_until("the first is dead", SOON, || keeper.children() == [keeper.supervisor, template.pid, born[1]]);
    give_up(&mut keeper, worker(1, 2));
    wait_until("the second is dead", SOON, || keeper.children().len() == 2);

    signal(template.pid, SIGSTOP);
    keeper.order(&[Order::Fork(worker(1, 3), TEMPLATE)]);
    give_up(&mut keeper, worker(1, 3));
    signal(template.pid, nix::sys::signal::Signal::SIGCONT);
    let next = keeper.fork(worker(1, 4), TEMPLATE);
    wait_until("who came too late is dead", SOON, || keeper.children().len() == 3);
    assert!(lives(next.pid) && lives(template.pid));
    keeper.shutdown(0);
}

fn the_death_of_a_template_gives_up_the_unborn_and_spares_the_living(mut keeper: Keeper) {
    let first = keeper.template(TEMPLATE, &["forks", "late", "mute", "leaves"]);
    let living = keeper.fork(worker(1, 1), TEMPLATE);
    living.job("echo up; read line <&3; exit 3");
    assert_eq!(living.line(), "up\n");
    let unborn = [worker(2, 1), worker(3, 1), worker(4, 1)];
    keeper.order(&unborn.map(|id| Order::Fork(id, TEMPLATE)));
    for id in unborn {
        assert_eq!(keeper.failed(id), (Step::Template, libc::ECHILD));
    }
    assert_eq!(keeper.exited(TEMPLATE).status, ExitStatus::Code(7));
    assert_eq!(keeper.children(), [keeper.supervisor, living.pid], "{}", first.pid);
    fs::write(keeper.dir.path().join("gate"), "").unwrap();

    let second = keeper.template(worker(9, 1), &["forks"]);
    let other = keeper.fork(worker(1, 2), second.worker);
    other.job("echo up; read line <&3; exit 4");
    assert_eq!(other.line(), "up\n");
    keeper.order(&[Order::KillTree(second.worker), Order::Fork(worker(1, 3), second.worker)]);
    assert_eq!(keeper.failed(worker(1, 3)), (Step::Template, libc::ESRCH));
    assert_eq!(keeper.exited(second.worker).status, KILLED);
    for (job, code) in [(living, 3), (other, 4)] {
        job.job("");
        let exit = keeper.exited(job.worker);
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(code), 0));
    }
    keeper.shutdown(0);
}

fn a_template_that_does_not_read_takes_no_more_orders(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["speaks and dies"]);
    signal(template.pid, SIGSTOP);
    let mut asked = Vec::new();
    let full = loop {
        let id = worker(1, 1 + asked.len() as u32);
        // An order that is refused is answered at once, and the answer to the second says that the first was not.
        keeper.order(&[Order::Fork(id, TEMPLATE), Order::Fork(id, worker(9, 9))]);
        match keeper.failed(id) {
            (Step::Fork, libc::EEXIST) => asked.push(id),
            other => break (id, other),
        }
    };
    assert_eq!(full.1, (Step::Template, libc::EAGAIN), "after {}", asked.len());
    assert_eq!(keeper.failed(full.0), (Step::Template, libc::ESRCH));
    signal(template.pid, nix::sys::signal::Signal::SIGCONT);
    for id in asked {
        assert_eq!(keeper.exited(id).status, ExitStatus::Code(6));
    }
    keeper.shutdown(0);
}

fn a_storm_of_births_is_in_nobodys_way_and_leaves_nothing(mut keeper: Keeper) {
    const FORKS: u32 = 500;
    let _limit = PidsLimit::around(keeper.pid(), 200);
    let template = keeper.template(TEMPLATE, &["forks", "forks", "has threads", "forks"]);
    let open = |keeper: &Keeper| fs::read_dir(format!("/proc/{}/fd", keeper.pid())).unwrap().count();
    let before = open(&keeper);
    let (mut asked, mut waiting, mut ended, mut left, mut longest) = (0, 0, 0, 0, Duration::ZERO);
    while ended < FORKS + FORKS / 10 {
        while asked < FORKS && waiting < 16 {
            asked += 1;
            waiting += 1;
            // Between the births others end, each with a process left behind, and are proven dead.
            let other = worker(2, asked);
            let spawned = asked % 10 == 0;
            keeper.order(&[Order::Fork(worker(1, asked), TEMPLATE)]);
            if spawned {
                keeper.run(other, "setsid sleep 1000 & exit 3");
            }
        }
        let (report, fds) = keeper.report();
        match report {
            Report::Started(id, pid) => {
                let [socket, out, err] = fds.try_into().unwrap();
                support::Parked { worker: id, pid, socket, out, err }.job("exit 4");
            }
            Report::Exited(id, exit) => {
                let of_fork = id.slot.index == 1;
                assert_eq!(exit.status, ExitStatus::Code(if of_fork { 4 } else { 3 }));
                left += exit.left_behind;
                longest = longest.max(exit.proof);
                ended += 1;
                waiting -= u32::from(of_fork);
                keeper.order(&[Order::Forget(id)]);
            }
            other => panic!("{other:?}"),
        }
    }
    println!("the longest proof: {longest:?}, {left} left behind");
    // Which of several lives that end at once has left a process is not always known; that it is none of the born is.
    assert!(left <= FORKS / 10);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    wait_until("nothing is left", SOON, || {
        keeper.children() == [keeper.supervisor, template.pid] && open(&keeper) == before
    });
    keeper.shutdown(0);
}

fn a_killed_keeper_takes_the_children_of_its_templates_along(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["forks"]);
    let idle = keeper.fork(worker(1, 1), TEMPLATE);
    let busy = keeper.fork(worker(1, 2), TEMPLATE);
    busy.job("echo up; while :; do sleep 1; done");
    assert_eq!(busy.line(), "up\n");
    let tag = taskvisor::keeper::tag(keeper.pid()).unwrap();
    let sweeper = taskvisor::keeper::Sweeper::new(keeper.pid(), &tag);
    signal(keeper.pid(), SIGKILL);
    assert_eq!(keeper.wait().signal(), Some(libc::SIGKILL));
    wait_until("all are dead", SOON, || ![template.pid, idle.pid, busy.pid].into_iter().any(lives));
    assert!(sweeper.sweep(SOON).1);
}

fn a_killed_supervisor_takes_templates_and_their_children_along(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["forks", "forks", "mute"]);
    let ended = keeper.fork(worker(1, 5), TEMPLATE);
    ended.job("echo kept; exit 4");
    assert_eq!(keeper.exited(ended.worker).status, ExitStatus::Code(4));
    let running = keeper.fork(worker(1, 6), TEMPLATE);
    running.job(&format!("{DAEMON}; while :; do sleep 1; done"));
    let daemon: i32 = running.line().trim().parse().unwrap();
    keeper.order(&[Order::Fork(worker(1, 7), TEMPLATE)]);
    wait_until("all are born", SOON, || keeper.children().len() == 4);
    signal(keeper.supervisor, SIGKILL);
    let hello = keeper.next_supervisor();
    assert_eq!((hello.left, hello.generation), (1, 7));
    assert!(![template.pid, running.pid, daemon].into_iter().any(lives));
    assert_eq!(keeper.children(), [keeper.supervisor]);
    let (exit, fds) = keeper.left(ended.worker);
    assert_eq!(exit.status, ExitStatus::Code(4));
    drop(ended);
    assert_eq!(read_until(&fds[1], |text| text.ends_with('\n')), "kept\n");
    keeper.order(&[Order::Fork(worker(1, 8), TEMPLATE)]);
    assert_eq!(keeper.failed(worker(1, 8)), (Step::Template, libc::ESRCH));
    keeper.shutdown(0);
}

#[test]
fn a_keeper_removes_what_dead_keepers_have_left_and_nothing_of_a_living_one() {
    let (mut dead, hello) = Keeper::start("");
    if !hello.cgroup {
        println!("SKIPPED: no cgroup v2 to write to");
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
            println!("SKIPPED: no pids cgroup");
            return keeper.shutdown(0);
        };
        keeper.order(&[Order::Spawn(worker(1, 1))]);
        assert_eq!(keeper.report().0, Report::SpawnFailed(worker(1, 1), Step::Fork, libc::EAGAIN));
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
            (Report::SpawnFailed(_, _, errno), _) if errno == libc::EMFILE => failed += 1,
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
fn a_refusal_to_start_is_the_keepers_own_exit_code() {
    for (line, code) in [("exit 78", 78), ("exit 0", 0), ("exec /nonexistent 2>/dev/null", 127)] {
        let status = std::process::Command::new(support::KEEPER)
            .args(["keeper", "--", "/bin/sh", "-c", line])
            .status()
            .unwrap();
        assert_eq!(status.code(), Some(code), "{line}");
    }
}

#[test]
fn a_supervisor_that_crashes_too_often_is_given_up() {
    let output = std::process::Command::new(support::KEEPER)
        .args(["keeper", "--", "/bin/sh", "-c", "kill -9 $$"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(70));
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.ends_with("the supervisor ended by signal 9, too often: giving up\n"), "{said}");
    assert_eq!(said.lines().count(), 5);
}

#[test]
fn a_supervisor_that_does_not_read_its_order_to_stop_is_stopped_for_it() {
    let (mut keeper, _) = Keeper::start_with("", &[], &["--stop-deadline", "0.2"]);
    let run = keeper.run(worker(1, 1), "sleep 1000");
    signal(keeper.pid(), SIGTERM);
    assert_eq!(keeper.wait().code(), Some(124));
    assert!(!lives(run.pid));
}

#[test]
fn it_has_the_time_that_was_said_last_for_its_order_to_stop() {
    let (mut keeper, _) = Keeper::start_with("", &[], &["--stop-deadline", "1000"]);
    keeper.order(&[Order::StopDeadline(Duration::from_millis(200))]);
    let run = keeper.run(worker(1, 1), "sleep 1000");
    signal(keeper.pid(), SIGTERM);
    assert_eq!(keeper.wait().code(), Some(124));
    assert!(!lives(run.pid));
}

#[test]
fn as_process_1_it_reaps_orphans() {
    if !nix::unistd::geteuid().is_root() {
        return println!("SKIPPED: a pid namespace needs root");
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

#[test]
fn what_the_supervisor_says_to_systemd_arrives_and_only_the_keeper_has_its_address() {
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
fn a_lock_is_held_by_keeper_and_supervisor_and_by_no_child() {
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
fn exits_wait_for_a_supervisor_that_does_not_read_and_none_is_lost() {
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
            Report::Exited(id, exit) => {
                assert_eq!(exit.status, KILLED, "{id}");
                exited += 1;
            }
            Report::SpawnFailed(..) => panic!("a spawn failed"),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(started, LIVES);
    keeper.shutdown(0);
}

/// Not a race against a clock: a figure to read, and a bound that only a mistake exceeds.
#[test]
fn a_cycle_costs_the_keeper_little() {
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
