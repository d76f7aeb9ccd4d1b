//! Parked children, and the programs they become.

use super::*;

stories! {
    a_parked_child_is_a_session_with_four_descriptors_and_default_signals
    a_program_runs_and_its_output_and_exit_arrive
    program_that_cannot_be_executed_reports_step_and_errno
    a_program_runs_as_the_user_it_is_given
    programs_have_a_lower_priority_than_keeper_and_supervisor
    slots_are_independent
    signals_are_passed_on
}

/// The nice value of a process, and that of its session's autogroup.
fn priority(pid: i32) -> (i64, String) {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let nice = read("stat").rsplit_once(") ").unwrap().1.split(' ').nth(16).unwrap().parse().unwrap();
    (nice, read("autogroup").trim_end().rsplit(' ').next().unwrap().to_owned())
}

/// Whether a keeper may raise its priority, and /proc tells of autogroups; reports it if not.
fn may_raise_priority() -> bool {
    const CAP_SYS_NICE: u64 = 1 << 23;
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let mine = status.lines().find_map(|line| line.strip_prefix("CapEff:\t")).unwrap();
    let may = u64::from_str_radix(mine, 16).unwrap() & CAP_SYS_NICE != 0
        && Path::new("/proc/self/autogroup").exists();
    if !may {
        missing("CAP_SYS_NICE");
    }
    may
}

fn programs_have_a_lower_priority_than_keeper_and_supervisor(mut keeper: Keeper) {
    if !may_raise_priority() {
        return keeper.shutdown(0);
    }
    let usual = priority(std::process::id() as i32);
    assert_eq!(priority(keeper.pid()), (-10, usual.1), "its session is not its own");
    assert_eq!(priority(keeper.supervisor()), (-10, "-10".into()));
    let parked = keeper.run(worker(1, 1), "setsid sleep 1000 & echo $!; wait");
    let daemon: i32 = parked.line().trim().parse().unwrap();
    for pid in [parked.pid, daemon] {
        assert_eq!(priority(pid), (usual.0, "0".into()));
    }
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    keeper.shutdown(0);
}

#[test]
fn keeper_that_leads_its_session_raises_the_share_of_that() {
    if may_raise_priority() {
        let (keeper, _) = Keeper::start_with("", &["setsid"], &[]);
        assert_eq!(priority(keeper.pid()), (-10, "-10".into()));
        keeper.shutdown(0);
    }
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
    // The keeper's duplicate keeps the socket open: a life ends only when it is forgotten or killed.
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

fn program_that_cannot_be_executed_reports_step_and_errno(mut keeper: Keeper) {
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
        missing("root");
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
    let tag = keeper::tag(keeper.pid()).unwrap();
    let sweeper = keeper::Sweeper::new(keeper.pid(), &tag);
    signal(keeper.pid(), SIGKILL);
    assert_eq!(keeper.wait().signal(), Some(libc::SIGKILL));
    wait_until("it has died with its keeper", SOON, || !lives(bound.pid));
    assert!(sweeper.unwrap().sweep(SOON).left.is_empty());
}

#[test]
fn only_root_may_run_a_program_as_another_user() {
    let plain = ["setpriv", "--reuid=4711", "--regid=4711", "--clear-groups"];
    if !nix::unistd::geteuid().is_root() {
        return missing("root");
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
    // A child of a template needs no rights either.
    keeper.template(TEMPLATE, &["forks", "has threads"]);
    for generation in [4, 5] {
        let job = keeper.fork(worker(1, generation), TEMPLATE);
        job.job("exit 3");
        assert_eq!(keeper.exited(job.worker).status, ExitStatus::Code(3));
    }
    keeper.shutdown(0);
}

fn slots_are_independent(mut keeper: Keeper) {
    let first = keeper.run(worker(1, 1), "echo up; sleep 1000");
    let second = keeper.run(worker(2, 2), "echo up; sleep 1000");
    assert_eq!((first.line(), second.line()), ("up\n".into(), "up\n".into()));
    keeper.order(&[Order::KillTree(worker(1, 1))]);
    assert_eq!(keeper.exited(worker(1, 1)).status, KILLED);
    assert!(lives(second.pid));
    keeper.order(&[Order::Forget(worker(1, 1)), Order::Forget(worker(2, 2)), Order::Spawn(worker(2, 2))]);
    assert!(matches!(keeper.report().0, Report::SpawnFailed { step: Step::Fork, errno: libc::EEXIST, .. }));
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
