//! Lives without a process until their program comes: the spawner starts it, and whatever happens to that costs one
//! start at most.

use super::*;
use std::process::Stdio;

use super::support::Parked;

stories! {
    life_gets_a_process_with_its_program_and_it_is_as_that_of_a_parked_child
    program_that_the_spawner_cannot_start_reports_step_and_errno
    program_of_the_spawner_runs_as_the_user_it_is_given
    life_that_is_ended_before_its_program_came_has_ended
    followers_of_such_a_life_have_no_process_either
    spawner_that_is_killed_loses_no_life_that_waits
    spawner_that_is_stopped_is_replaced_and_the_program_runs
    program_that_cannot_be_executed_for_now_holds_up_no_other
    supervisor_that_leaves_takes_lives_without_a_process_along
    newborn_killed_or_stopped_at_any_step_costs_its_own_life_alone
    spawner_killed_at_any_step_costs_one_start_at_most
}

const TERMINATED: ExitStatus = ExitStatus::Signal { signal: libc::SIGTERM, core: false };

pub fn comm(pid: i32) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default().trim().to_owned()
}

pub fn spawners(keeper: &Keeper) -> Vec<i32> {
    keeper.children().into_iter().filter(|pid| comm(*pid) == "tv-spawner" && lives(*pid)).collect()
}

/// The one spawner, once it is there.
pub fn spawner(keeper: &Keeper) -> i32 {
    wait_until("there is a spawner", SOON, || spawners(keeper).len() == 1);
    spawners(keeper)[0]
}

pub fn place(keeper: &mut Keeper, worker: WorkerId) -> Parked {
    keeper.order(&[Order::Place(worker)]);
    let placed = keeper.started(worker);
    assert_eq!(placed.pid, 0, "it has a process already");
    placed
}

pub fn born(keeper: &mut Keeper, worker: WorkerId) -> i32 {
    let fits = |report: &Report| match report {
        Report::Born(id, pid) if *id == worker => Some(*pid),
        _ => None,
    };
    keeper.expect(fits).0
}

/// Asserts that a program runs in a new life.
pub fn assert_works(keeper: &mut Keeper, worker: WorkerId) {
    let life = place(keeper, worker);
    life.exec(&shell("echo works; exit 5"));
    assert_eq!(life.line(), "works\n");
    assert_eq!(keeper.exited(worker).status, ExitStatus::Code(5));
}

fn life_gets_a_process_with_its_program_and_it_is_as_that_of_a_parked_child(mut keeper: Keeper) {
    let says = "echo $$ $PPID; umask; pwd; ls /proc/self/fd | tr '\\n' ' '; grep -E '^Sig[BIC]|^Max file|^Max open' \
                /proc/self/status /proc/self/limits; cut -d' ' -f6,19 /proc/self/stat; cat /proc/self/oom_score_adj; \
                cat /proc/self/autogroup; echo err >&2; sleep 1000 & exit 7";
    let parked = keeper.run(worker(1, 1), says);
    let of_parked = keeper.exited(worker(1, 1));
    let placed = place(&mut keeper, worker(1, 2));
    let spawner = spawner(&keeper);
    wait_until("there are spawner and supervisor alone", SOON, || keeper.children().len() == 2);
    placed.exec(&shell(says));
    let pid = born(&mut keeper, worker(1, 2));
    let of_placed = keeper.exited(worker(1, 2));
    assert_eq!((of_placed.status, of_placed.left_behind), (of_parked.status, of_parked.left_behind));
    assert!(of_placed.usage.max_rss > 0);
    let said = |life: &Parked, pid: i32| {
        let text = read_until(&life.out, |text| text.contains("autogroup"));
        let odd = by_name(&text, pid, keeper.pid());
        (odd, read_until(&life.err, |text| text.ends_with('\n')))
    };
    assert_eq!(said(&placed, pid), said(&parked, parked.pid));
    assert_eq!(spawners(&keeper), [spawner]);
    keeper.shutdown(0);
}

/// The text with the pids by name, and without what differs from one session to the next.
fn by_name(text: &str, own: i32, keeper: i32) -> String {
    let named = |word: &str| match word.parse::<i32>() {
        Ok(pid) if pid == own => "OWN".to_owned(),
        Ok(pid) if pid == keeper => "KEEPER".to_owned(),
        _ if word.starts_with("/autogroup") => "/autogroup".to_owned(),
        _ => word.to_owned(),
    };
    text.split_whitespace().map(named).collect::<Vec<_>>().join(" ")
}

fn program_that_the_spawner_cannot_start_reports_step_and_errno(mut keeper: Keeper) {
    let plain = keeper.dir.path().join("plain");
    fs::write(&plain, "not a program").unwrap();
    fs::set_permissions(&plain, fs::Permissions::from_mode(0o644)).unwrap();
    let mut nowhere = shell("true");
    nowhere.cwd = b"/nonexistent".to_vec();
    let mut long = shell("true");
    long.argv.push(vec![b'x'; 140_000]);
    let mut no_stdin = shell("true");
    no_stdin.stdin = true;
    let mut torn = shell("true");
    torn.env.push(b"A=1\0B=2".to_vec());
    let mut torn_place = shell("true");
    torn_place.cwd = b"/\0tmp".to_vec();
    let mut nobody = shell("true");
    nobody.identity = Some(Identity { uid: u32::MAX, gid: 0, groups: Vec::new() });
    let cases = [
        (program(&["no-such-program"]), ProgramStep::Exec, libc::ENOENT, 127),
        (program(&["/no/such/program"]), ProgramStep::Exec, libc::ENOENT, 127),
        (program(&[plain.to_str().unwrap()]), ProgramStep::Exec, libc::EACCES, 126),
        (program(&["/etc/passwd/x"]), ProgramStep::Exec, libc::ENOTDIR, 126),
        (nowhere, ProgramStep::Chdir, libc::ENOENT, 126),
        (program(&[]), ProgramStep::Order, libc::EBADMSG, 126),
        (program(&[""]), ProgramStep::Exec, libc::ENOENT, 127),
        (long, ProgramStep::Exec, libc::E2BIG, 126),
        (no_stdin, ProgramStep::Descriptors, libc::EBADF, 126),
        (torn, ProgramStep::Exec, libc::EINVAL, 126),
        (torn_place, ProgramStep::Chdir, libc::EINVAL, 126),
        (nobody, ProgramStep::Identity, libc::EINVAL, 126),
    ];
    for (generation, (order, step, errno, code)) in (1..).zip(cases) {
        let placed = place(&mut keeper, worker(1, generation));
        let exec =
            |life: &Parked| fs::File::from(life.socket.try_clone().unwrap()).write_all(&order.encode());
        // The parked child is the model.
        let parked = keeper.park(worker(2, generation));
        for life in [&parked, &placed] {
            exec(life).unwrap();
            let status = keeper.exited(life.worker).status;
            assert_eq!(
                (status, life.failure()),
                (ExitStatus::Code(code), Some(Failed { step, errno })),
                "{:?}",
                order.argv
            );
        }
    }
    keeper.shutdown(0);
}

fn program_of_the_spawner_runs_as_the_user_it_is_given(mut keeper: Keeper) {
    if !nix::unistd::geteuid().is_root() {
        return keeper.shutdown(0);
    }
    let life = place(&mut keeper, worker(1, 1));
    let mut order = shell("id -u; id -g; id -G; grep NoNewPrivs /proc/self/status; exec sleep 1000");
    order.identity = Some(Identity { uid: 65534, gid: 65534, groups: vec![9, 7, 7] });
    life.exec(&order);
    let text = read_until(&life.out, |text| text.contains("NoNew"));
    assert!(text.starts_with("65534\n65534\n65534 7 9\n"), "{text}");
    // The bond to the keeper has outlived the change of user.
    let pid = born(&mut keeper, worker(1, 1));
    signal(keeper.pid(), SIGKILL);
    wait_until("it is dead", SOON, || !lives(pid));
    keeper.wait();
}

fn life_that_is_ended_before_its_program_came_has_ended(mut keeper: Keeper) {
    for (generation, order, status) in
        [(1, Order::KillTree as fn(_) -> _, KILLED), (2, Order::Terminate as fn(_) -> _, TERMINATED)]
    {
        let idle = place(&mut keeper, worker(1, generation));
        let other = place(&mut keeper, worker(2, generation));
        let spawner = spawner(&keeper);
        keeper.order(&[order(idle.worker)]);
        assert_eq!(keeper.exited(idle.worker).status, status);
        other.exec(&shell("echo other"));
        assert_eq!(other.line(), "other\n");
        assert_eq!(keeper.exited(other.worker).status, ExitStatus::Code(0));
        assert_eq!(spawners(&keeper), [spawner]);
    }
    let fenced = place(&mut keeper, worker(1, 3));
    keeper.order(&[Order::KillAt(fenced.worker, Some(clock::now() + Duration::from_millis(50)))]);
    assert_eq!(keeper.exited(fenced.worker).status, KILLED);
    keeper.shutdown(0);
}

fn followers_of_such_a_life_have_no_process_either(mut keeper: Keeper) {
    let first = place(&mut keeper, worker(1, 1));
    keeper.order(&[Order::Follow(first.worker, Follow { lives: 2, fence: None })]);
    for generation in 1..=3 {
        let life = match generation {
            1 => Parked { worker: worker(1, 1), pid: 0, ..clone(&first) },
            _ => keeper.started(worker(1, generation)),
        };
        assert_eq!(life.pid, 0);
        life.exec(&shell("echo $$"));
        let pid = born(&mut keeper, life.worker);
        assert_eq!(life.line(), format!("{pid}\n"));
        assert_eq!(keeper.exited(life.worker).status, ExitStatus::Code(0));
    }
    keeper.shutdown(0);
}

fn clone(life: &Parked) -> Parked {
    let copy = |fd: &std::os::fd::OwnedFd| fd.try_clone().unwrap();
    Parked {
        worker: life.worker,
        pid: life.pid,
        socket: copy(&life.socket),
        out: copy(&life.out),
        err: copy(&life.err),
    }
}

fn spawner_that_is_killed_loses_no_life_that_waits(mut keeper: Keeper) {
    let lives: Vec<Parked> = (1..9).map(|index| place(&mut keeper, worker(index, 1))).collect();
    for life in &lives {
        let before = spawner(&keeper);
        signal(before, SIGKILL);
        wait_until("there is another", SOON, || spawners(&keeper).iter().any(|pid| *pid != before));
        life.exec(&shell("echo it runs"));
        assert_eq!(life.line(), "it runs\n");
        assert_eq!(keeper.exited(life.worker).status, ExitStatus::Code(0));
    }
    keeper.shutdown(0);
}

fn spawner_that_is_stopped_is_replaced_and_the_program_runs(mut keeper: Keeper) {
    let (first, second) = (place(&mut keeper, worker(1, 1)), place(&mut keeper, worker(2, 1)));
    let before = spawner(&keeper);
    signal(before, SIGSTOP);
    first.exec(&shell("echo it runs"));
    // As the supervisor does it for a program that gets no process in time.
    keeper.order(&[Order::Hurry]);
    assert_eq!(first.line(), "it runs\n");
    assert_eq!(keeper.exited(first.worker).status, ExitStatus::Code(0));
    let after = spawner(&keeper);
    assert_ne!(before, after);
    signal(after, SIGSTOP);
    keeper.order(&[Order::KillTree(second.worker)]);
    assert_eq!(keeper.exited(second.worker).status, KILLED);
    assert_works(&mut keeper, worker(3, 1));
    keeper.shutdown(0);
}

fn program_that_cannot_be_executed_for_now_holds_up_no_other(mut keeper: Keeper) {
    let path = keeper.dir.path().join("busy");
    fs::copy("/bin/true", &path).unwrap();
    let (busy, other) = (place(&mut keeper, worker(1, 1)), place(&mut keeper, worker(2, 1)));
    let writer = fs::OpenOptions::new().append(true).open(&path).unwrap();
    busy.exec(&program(&[path.to_str().unwrap()]));
    let pid = born(&mut keeper, busy.worker);
    other.exec(&shell("echo other"));
    assert_eq!(other.line(), "other\n");
    assert!(lives(pid), "it has waited for nobody");
    drop(writer);
    assert_eq!(keeper.exited(busy.worker).status, ExitStatus::Code(0));
    keeper.shutdown(0);
}

fn supervisor_that_leaves_takes_lives_without_a_process_along(mut keeper: Keeper) {
    let idle = place(&mut keeper, worker(1, 1));
    let busy = place(&mut keeper, worker(2, 1));
    busy.exec(&shell("echo up; setsid sleep 1000 & exec sleep 1000"));
    assert_eq!(busy.line(), "up\n");
    let pid = born(&mut keeper, busy.worker);
    drop(idle);
    keeper.close();
    let hello = keeper.next_supervisor();
    assert_eq!((hello.left, hello.stuck), (0, 0));
    assert!(!lives(pid));
    assert_works(&mut keeper, worker(1, 2));
    keeper.shutdown(0);
}

/// The calls of a newborn in order, each the first of its kind.
const STEPS: [&str; 9] =
    ["sendto", "setsid", "prctl", "dup3", "close_range", "rt_sigprocmask", "umask", "chdir", "execve"];

/// Has calls of that name in a process and what it forks end as strace's `inject` says. None where that cannot be done.
/// To attach interrupts a call, and the process begins it again. If that is such a call, the process and strace may have
/// ended before this returns.
pub fn inject(pid: i32, call: &str, how: &str) -> Option<std::process::Child> {
    let mut strace = std::process::Command::new("strace");
    strace.args(["-f", "-qq", "-o", "/dev/null", "-e", &format!("inject={call}:{how}")]);
    let mut strace = strace.args(["-p", &pid.to_string()]).stderr(Stdio::null()).spawn().ok()?;
    let traced = || {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.lines().any(|line| line.strip_prefix("TracerPid:").is_some_and(|pid| pid.trim() != "0"))
    };
    let mut ended = None;
    wait_until("strace is attached", SOON, || {
        ended = strace.try_wait().unwrap();
        ended.is_some() || traced()
    });
    ended.is_none_or(|status| status.success()).then_some(strace)
}

/// What happens to a newborn at a step.
#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Killed,
    /// It is stopped, and then its life is ended.
    Stopped,
    /// As by the out-of-memory killer: it dies together with the spawner, whose memory it shares.
    OutOfMemory,
}

fn newborn_killed_or_stopped_at_any_step_costs_its_own_life_alone(mut keeper: Keeper) {
    let ends = [End::Killed, End::Stopped, End::OutOfMemory];
    let cases = STEPS.into_iter().flat_map(|call| ends.map(|end| (call, end)));
    for (generation, (call, sent)) in (1..).zip(cases) {
        let (life, other) =
            (place(&mut keeper, worker(1, generation)), place(&mut keeper, worker(2, generation)));
        let spawner = spawner(&keeper);
        let name = if sent == End::Killed { "SIGKILL" } else { "SIGSTOP" };
        let Some(mut strace) = inject(spawner, call, &format!("signal={name}:when=1")) else {
            missing("ptrace");
            return keeper.shutdown(0);
        };
        life.exec(&shell("echo up; exec sleep 1000"));
        if sent != End::Killed {
            let is_stopped = |pid: &i32| {
                fs::read_to_string(format!("/proc/{pid}/stat"))
                    .is_ok_and(|stat| stat.contains(") t ") || stat.contains(") T "))
            };
            let newborn = || keeper.children().into_iter().find(|pid| *pid != spawner && is_stopped(pid));
            let mut found = None;
            // strace stops it for a moment at each call, too: it is looked for once.
            wait_until(&format!("it is stopped at {call}"), SOON, || {
                found = newborn();
                found.is_some()
            });
            match sent {
                End::OutOfMemory => found.into_iter().chain([spawner]).for_each(|pid| signal(pid, SIGKILL)),
                _ => keeper.order(&[Order::KillTree(life.worker)]),
            }
        }
        assert_eq!(keeper.exited(life.worker).status, KILLED, "{call} {sent:?}");
        strace.kill().unwrap();
        strace.wait().unwrap();
        other.exec(&shell("echo other"));
        assert_eq!(other.line(), "other\n", "{call} {sent:?}");
        assert_eq!(keeper.exited(other.worker).status, ExitStatus::Code(0), "{call} {sent:?}");
    }
    keeper.shutdown(0);
}

/// The calls of the spawner around a start, in which it is killed.
fn spawner_killed_at_any_step_costs_one_start_at_most(mut keeper: Keeper) {
    let calls = ["epoll_wait", "recvmsg", "epoll_ctl", "recvfrom", "clone3"];
    for (generation, call) in (1..).zip(calls) {
        let (life, other) =
            (place(&mut keeper, worker(1, generation)), place(&mut keeper, worker(2, generation)));
        let Some(mut strace) = inject(spawner(&keeper), call, "signal=SIGKILL:when=1") else {
            missing("ptrace");
            return keeper.shutdown(0);
        };
        life.exec(&shell("exit 3"));
        let status = keeper.exited(life.worker).status;
        assert!([KILLED, ExitStatus::Code(3)].contains(&status), "{call} {status:?}");
        strace.kill().ok();
        strace.wait().unwrap();
        other.exec(&shell("echo other"));
        assert_eq!(other.line(), "other\n", "{call}");
        assert_eq!(keeper.exited(other.worker).status, ExitStatus::Code(0), "{call}");
    }
    keeper.shutdown(0);
}
