//! The spawner on a bad day: it hangs, dies, cannot die, has no memory, or the system lacks its calls.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, send};

use super::hang::Hang;
use super::memory_limit::MemoryLimit;
use super::spawner::{assert_works, born, inject, place, spawner, spawners};
use super::*;

stories! {
    exec_that_hangs_holds_up_its_own_job_alone
    spawner_killed_by_the_kernel_for_want_of_memory_costs_one_start
    spawner_that_cannot_die_is_reported_and_new_lives_do_without_it
    spawner_that_dies_again_and_again_is_replaced_by_parked_children
    system_without_a_call_of_the_spawner_gets_parked_children
    more_lives_than_the_spawner_takes_get_parked_children
    program_gets_its_score_for_the_killer_and_the_spawner_keeps_its_own
}

fn exec_that_hangs_holds_up_its_own_job_alone(mut keeper: Keeper) {
    let path = keeper.dir.path().join("hangs");
    fs::copy("/bin/true", &path).unwrap();
    let Some(hang) = Hang::on(&path) else {
        missing("fanotify");
        return keeper.shutdown(0);
    };
    let hung = [1, 2].map(|index| place(&mut keeper, worker(index, 1)));
    let before = spawner(&keeper);
    let pids = hung.each_ref().map(|life| {
        life.exec(&program(&[path.to_str().unwrap()]));
        born(&mut keeper, life.worker)
    });
    let other = place(&mut keeper, worker(3, 1));
    other.exec(&shell("echo other"));
    assert_eq!(other.line(), "other\n");
    assert_eq!(keeper.exited(other.worker).status, ExitStatus::Code(0));
    assert_ne!(spawner(&keeper), before);
    assert!(pids.into_iter().all(lives), "they have waited for nobody");
    keeper.order(&[Order::KillTree(hung[0].worker)]);
    assert_eq!(keeper.exited(hung[0].worker).status, KILLED);
    drop(hang);
    assert_eq!(keeper.exited(hung[1].worker).status, ExitStatus::Code(0));
    keeper.shutdown(0);
}

/// Sends all of it, unless the other end is gone.
fn send_all(socket: &OwnedFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let mut room = [PollFd::new(socket.as_fd(), PollFlags::POLLOUT)];
        poll(&mut room, PollTimeout::NONE).unwrap();
        match send(socket.as_raw_fd(), bytes, MsgFlags::MSG_NOSIGNAL) {
            Ok(len) => bytes = &bytes[len..],
            Err(Errno::EAGAIN) => {}
            Err(_) => return,
        }
    }
}

/// Some of these are too small for the spawner to read its order, some for the newborn to execute its program.
const ROOM: [u64; 12] = [16, 64, 128, 256, 512, 1024, 1536, 2048, 3072, 4096, 6144, 65536];

fn spawner_killed_by_the_kernel_for_want_of_memory_costs_one_start(mut keeper: Keeper) {
    let (mut kills, mut ends) = (0, Vec::new());
    for (generation, kilobytes) in (1..).zip(ROOM) {
        let (life, other) =
            (place(&mut keeper, worker(1, generation)), place(&mut keeper, worker(2, generation)));
        let Some(limit) = MemoryLimit::around(spawner(&keeper), kilobytes << 10) else {
            missing("memory");
            return keeper.shutdown(0);
        };
        let mut order = shell("exit 3");
        order.argv.extend(vec![vec![b'x'; 100_000]; 6]);
        send_all(&life.socket, &order.encode());
        ends.push(keeper.exited(life.worker).status);
        kills += limit.kills();
        drop(limit);
        other.exec(&shell("echo other"));
        assert_eq!(other.line(), "other\n", "{kilobytes}");
        assert_eq!(keeper.exited(other.worker).status, ExitStatus::Code(0), "{kilobytes}");
    }
    assert!(kills >= 3 && ends.last() == Some(&ExitStatus::Code(3)), "{kills} {ends:?}");
    assert!(ends.contains(&KILLED), "{ends:?}");
    keeper.shutdown(0);
}

fn spawner_that_cannot_die_is_reported_and_new_lives_do_without_it(mut keeper: Keeper) {
    let (ended, waits) = (place(&mut keeper, worker(1, 1)), place(&mut keeper, worker(2, 1)));
    let before = spawner(&keeper);
    let Some(frozen) = Freezer::around(before) else {
        missing("freezer");
        return keeper.shutdown(0);
    };
    keeper.order(&[Order::KillTree(ended.worker)]);
    let fits = |report: &Report| match report {
        Report::Stuck(id, pid) if *id == ended.worker => Some(*pid),
        _ => None,
    };
    assert_eq!(keeper.expect(fits).0, before);
    let parked = keeper.run(worker(3, 1), "echo works");
    assert_eq!(parked.line(), "works\n");
    keeper.order(&[Order::Place(worker(4, 1))]);
    let without = keeper.started(worker(4, 1));
    assert_ne!(without.pid, 0, "the old spawner would never start it");
    without.exec(&shell("echo works"));
    assert_eq!(without.line(), "works\n");
    frozen.thaw();
    assert_eq!(keeper.exited(ended.worker).status, KILLED);
    waits.exec(&shell("echo waited"));
    assert_eq!(waits.line(), "waited\n");
    assert_works(&mut keeper, worker(5, 1));
    drop(frozen);
    keeper.shutdown(0);
}

fn spawner_that_dies_again_and_again_is_replaced_by_parked_children(mut keeper: Keeper) {
    let idle = place(&mut keeper, worker(1, 1));
    let mut pid = None;
    while pid.is_none() {
        let before = spawner(&keeper);
        signal(before, SIGKILL);
        wait_until("it is dead", SOON, || !lives(before));
        wait_until("something takes its place", SOON, || {
            pid = keeper.children().into_iter().find(|pid| super::spawner::comm(*pid) == "tv-parked");
            pid.is_some() || spawners(&keeper).iter().any(|pid| *pid != before)
        });
    }
    assert_eq!(Some(born(&mut keeper, idle.worker)), pid);
    idle.exec(&shell("echo it runs"));
    assert_eq!(idle.line(), "it runs\n");
    assert_eq!(keeper.exited(idle.worker).status, ExitStatus::Code(0));
    keeper.order(&[Order::Place(worker(1, 2))]);
    assert_ne!(keeper.started(worker(1, 2)).pid, 0);
    keeper.shutdown(0);
}

fn system_without_a_call_of_the_spawner_gets_parked_children(mut keeper: Keeper) {
    // As before Linux 5.9. A parked child then closes its descriptors one by one.
    let Some(mut strace) = inject(keeper.pid(), "close_range", "error=ENOSYS") else {
        missing("ptrace");
        return keeper.shutdown(0);
    };
    let first = place(&mut keeper, worker(1, 1));
    born(&mut keeper, first.worker);
    keeper.order(&[Order::Place(worker(2, 1))]);
    let second = keeper.started(worker(2, 1));
    assert_ne!(second.pid, 0);
    for life in [&first, &second] {
        life.exec(&shell("echo it runs; ls /proc/self/fd | wc -l"));
        assert_eq!(read_until(&life.out, |text| text.lines().count() == 2), "it runs\n4\n");
        assert_eq!(keeper.exited(life.worker).status, ExitStatus::Code(0));
    }
    assert!(spawners(&keeper).is_empty());
    strace.kill().unwrap();
    strace.wait().unwrap();
    keeper.shutdown(0);
}

fn more_lives_than_the_spawner_takes_get_parked_children(mut keeper: Keeper) {
    place(&mut keeper, worker(1, 1));
    let before = spawner(&keeper);
    signal(before, SIGSTOP);
    let mut last = None;
    for index in 2..400 {
        last = Some(place(&mut keeper, worker(index, 1)));
    }
    let last = last.unwrap();
    born(&mut keeper, last.worker);
    last.exec(&shell("echo it runs"));
    assert_eq!(last.line(), "it runs\n");
    signal(before, nix::sys::signal::Signal::SIGCONT);
    assert_works(&mut keeper, worker(1000, 1));
    keeper.shutdown(0);
}

fn program_gets_its_score_for_the_killer_and_the_spawner_keeps_its_own(mut keeper: Keeper) {
    let life = place(&mut keeper, worker(1, 1));
    let score = format!("/proc/{}/oom_score_adj", spawner(&keeper));
    let before = fs::read_to_string(&score).unwrap();
    let mut order = shell("cat /proc/self/oom_score_adj");
    order.process_limits.oom_score_adj = Some(777);
    life.exec(&order);
    assert_eq!(life.line(), "777\n");
    assert_eq!(fs::read_to_string(&score).unwrap(), before);
    keeper.shutdown(0);
}

#[test]
fn keeper_that_is_to_do_without_clone3_parks_a_child_for_each_life() {
    let (mut keeper, _) = Keeper::start("clone3");
    keeper.order(&[Order::Place(worker(1, 1))]);
    let life = keeper.started(worker(1, 1));
    wait_until("it is parked", SOON, || super::spawner::comm(life.pid) == "tv-parked");
    assert!(spawners(&keeper).is_empty());
    life.exec(&shell("echo it runs"));
    assert_eq!(life.line(), "it runs\n");
    keeper.shutdown(0);
}
