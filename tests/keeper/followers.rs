//! Followers: lives that the keeper makes by itself after the previous life of the slot.

use super::*;

stories! {
    keeper_makes_as_many_followers_as_ordered_after_proven_exits
    life_ended_by_the_supervisor_gets_no_follower
    a_follower_is_killed_at_its_fence
    lives_of_a_supervisor_that_left_get_no_follower
    follower_is_born_in_the_cgroup_of_the_life_before_if_nobody_has_changed_that
}

/// Waits for the exit of a life; returns whether the keeper made a follower.
fn followed(keeper: &mut Keeper, worker: WorkerId) -> bool {
    keeper
        .expect(|report| match report {
            Report::Exited { worker: id, followed, .. } if *id == worker => Some(*followed),
            _ => None,
        })
        .0
}

fn follow(lives: u16, fence: Option<Duration>) -> Order {
    Order::Follow(worker(1, 1), Follow { lives, fence })
}

fn keeper_makes_as_many_followers_as_ordered_after_proven_exits(mut keeper: Keeper) {
    let first = keeper.park(worker(1, 1));
    keeper.order(&[follow(2, None)]);
    first.exec(&shell(&format!("{DAEMON}; exit 3")));
    let daemon: i32 = first.line().trim().parse().unwrap();
    assert!(followed(&mut keeper, worker(1, 1)));
    // The keeper makes the follower only after the proof of death.
    assert!(!lives(daemon));
    let second = keeper.started(worker(1, 2));
    second.exec(&shell("echo second"));
    assert_eq!(second.line(), "second\n");
    assert!(followed(&mut keeper, worker(1, 2)));
    let third = keeper.started(worker(1, 3));
    third.exec(&shell("echo third"));
    assert_eq!(third.line(), "third\n");
    assert!(!followed(&mut keeper, worker(1, 3)));
    assert_eq!(keeper.children(), [keeper.supervisor()], "the last life has no follower");
    let next = keeper.park(worker(1, 4));
    keeper.order(&[Order::KillTree(next.worker)]);
    assert!(!followed(&mut keeper, next.worker));
    keeper.shutdown(0);
}

fn life_ended_by_the_supervisor_gets_no_follower(mut keeper: Keeper) {
    for (generation, order) in [(1, Order::Terminate as fn(_) -> _), (2, Order::KillTree as fn(_) -> _)] {
        let life = worker(1, generation);
        let sleeper = keeper.park(life);
        keeper.order(&[Order::Follow(life, Follow { lives: 9, fence: None })]);
        sleeper.exec(&shell("echo up; exec sleep 1000"));
        assert_eq!(sleeper.line(), "up\n");
        keeper.order(&[order(life)]);
        assert!(!followed(&mut keeper, life));
    }
    keeper.shutdown(0);
}

fn a_follower_is_killed_at_its_fence(mut keeper: Keeper) {
    let first = keeper.park(worker(1, 1));
    keeper.order(&[follow(9, Some(Duration::from_millis(50)))]);
    first.exec(&shell("exit 0"));
    assert!(followed(&mut keeper, worker(1, 1)));
    keeper.started(worker(1, 2));
    assert_eq!(keeper.exited(worker(1, 2)).status, KILLED);
    // The supervisor did not renew the fence: a life killed by it gets no follower.
    let next = keeper.park(worker(1, 3));
    keeper.order(&[Order::KillTree(next.worker)]);
    keeper.shutdown(0);
}

fn lives_of_a_supervisor_that_left_get_no_follower(mut keeper: Keeper) {
    let parked = keeper.park(worker(1, 1));
    keeper.order(&[follow(9, None)]);
    keeper.close();
    let hello = keeper.next_supervisor();
    assert_eq!((hello.left, hello.stuck), (0, 0));
    assert!(!lives(parked.pid));
    assert_eq!(keeper.children(), [keeper.supervisor()]);
    keeper.shutdown(0);
}

/// Says in which cgroup it runs. The directory of that is `$dir`.
const WHERE: &str = "cgroup=$(sed -n 's/^0:://p' /proc/self/cgroup)
    for root in /sys/fs/cgroup /sys/fs/cgroup/unified; do test -d $root$cgroup && dir=$root$cgroup; done
    echo ${cgroup##*/}";

fn follower_is_born_in_the_cgroup_of_the_life_before_if_nobody_has_changed_that(mut keeper: Keeper) {
    if !keeper.cgroup {
        return keeper.shutdown(0);
    }
    let mut life = keeper.park(worker(1, 1));
    keeper.order(&[follow(64, None)]);
    let mut home = worker(1, 1).to_string();
    for (odd, hands_on) in [
        ("true", true),
        ("cat $dir/cgroup.procs >/dev/null; exit 3", true),
        ("kill -9 $$", true),
        ("echo 3 >$dir/cgroup.max.depth", false),
        ("true", true),
        ("mkdir $dir/below", false),
        ("mkdir $dir/below; rmdir $dir/below", false),
        ("chmod 700 $dir", false),
        ("chmod 666 $dir/cgroup.procs", false),
        ("setsid sleep 1000 >/dev/null 2>&1 & exit 0", false),
        ("true", true),
    ] {
        life.exec(&shell(&format!("{WHERE}; {odd}")));
        assert_eq!(life.line().trim(), home, "before {odd}");
        assert!(followed(&mut keeper, life.worker), "{odd}");
        life = keeper.started(life.worker.next());
        home = if hands_on { home } else { life.worker.to_string() };
    }
    keeper.order(&[Order::Bound(life.worker, model::Bounds { memory: None, tasks: Some(99) })]);
    keeper.order(&[Order::KillTree(life.worker)]);
    assert_eq!(keeper.exited(life.worker).status, KILLED);
    keeper.shutdown(0);
}
