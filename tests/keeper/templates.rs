//! Templates: forks, failed forks, and deaths of templates and their children.

use super::*;

stories! {
    child_of_a_template_is_a_life_like_any_other
    child_that_dies_after_its_hello_is_reported_started_then_exited
    a_template_that_may_not_fork_into_a_cgroup_forks_beside_it
    fork_without_a_child_is_reported_as_failed
    keeper_kills_a_child_that_claims_a_wrong_life
    keeper_kills_the_child_of_an_abandoned_fork_whenever_it_appears
    template_death_fails_pending_forks_and_spares_its_children
    child_that_is_told_to_end_before_it_is_born_ends_as_soon_as_it_is
    fork_orders_fail_when_the_template_does_not_read
    storm_of_forks_blocks_no_other_life_and_leaves_nothing
    keeper_death_kills_the_children_of_its_templates
    supervisor_death_kills_templates_and_their_children
}

fn child_of_a_template_is_a_life_like_any_other(mut keeper: Keeper) {
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

fn child_that_dies_after_its_hello_is_reported_started_then_exited(mut keeper: Keeper) {
    keeper.template(TEMPLATE, &["speaks and dies"]);
    for round in 0..20 {
        let workers: Vec<WorkerId> = (1..=4).map(|index| worker(index, round + 1)).collect();
        keeper.order(&workers.iter().map(|id| Order::Fork(*id, TEMPLATE)).collect::<Vec<_>>());
        let (mut started, mut ended) = (Vec::new(), Vec::new());
        while ended.len() < workers.len() {
            match keeper.report().0 {
                Report::Started(id, _) => started.push(id),
                Report::Exited { worker: id, exit, .. } => {
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

/// The cgroup in which a child was forked (from its environment), and its cgroup now.
fn cgroups_of_child(pid: i32) -> (String, String) {
    let of = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let (environ, cgroup) = (of("environ"), of("cgroup"));
    let born = environ.split('\0').find_map(|entry| entry.strip_prefix("BORN="));
    let own = cgroup.lines().find_map(|line| line.strip_prefix("0::"));
    (born.unwrap_or_default().into(), own.unwrap_or_default().into())
}

fn a_template_that_may_not_fork_into_a_cgroup_forks_beside_it(mut keeper: Keeper) {
    if !nix::unistd::geteuid().is_root() {
        missing("root");
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
        missing("cgroup2");
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
fn keeper_clears_and_removes_the_cgroup_of_a_failed_fork() {
    let (mut keeper, hello) = Keeper::start("");
    if !hello.cgroup {
        missing("cgroup2");
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

fn fork_without_a_child_is_reported_as_failed(mut keeper: Keeper) {
    let stranger = worker(9, 9);
    keeper.order(&[Order::Fork(worker(1, 1), stranger)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Template, libc::ESRCH));
    let plain = keeper.park(worker(9, 1));
    keeper.order(&[Order::Fork(worker(1, 1), plain.worker)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Template, libc::ESRCH));

    let template = keeper.template(TEMPLATE, &["fails", "fails", "dies unheard", "forks"]);
    keeper.order(&[Order::Fork(worker(1, 1), TEMPLATE)]);
    assert_eq!(keeper.failed(worker(1, 1)), (Step::Fork, libc::EAGAIN));
    // A template may also report the failed fork of an abandoned life.
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

    // A template that sends no hello has no fork socket.
    keeper.order(&[Order::Template(worker(8, 1))]);
    let mute = keeper.started(worker(8, 1));
    mute.exec(&shell("echo up; sleep 1000"));
    assert_eq!(mute.line(), "up\n");
    assert!(fs::read_link(format!("/proc/{}/fd/4", mute.pid)).is_err());
    keeper.order(&[Order::Fork(worker(1, 3), mute.worker)]);
    assert_eq!(keeper.failed(worker(1, 3)), (Step::Template, libc::EPIPE));
    keeper.shutdown(0);
}

fn keeper_kills_a_child_that_claims_a_wrong_life(mut keeper: Keeper) {
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

fn child_that_is_told_to_end_before_it_is_born_ends_as_soon_as_it_is(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["forks"]);
    signal(template.pid, SIGSTOP);
    let [told, other] = [worker(1, 1), worker(1, 2)];
    keeper.order(&[Order::Fork(told, TEMPLATE), Order::Fork(other, TEMPLATE), Order::Terminate(told)]);
    signal(template.pid, nix::sys::signal::Signal::SIGCONT);
    let (told, other) = (keeper.started(told), keeper.started(other));
    let exit = keeper.exited(told.worker);
    assert_eq!(exit.status, ExitStatus::Signal { signal: libc::SIGTERM, core: false });
    assert!(lives(other.pid), "nobody has told it");
    keeper.shutdown(0);
}

fn keeper_kills_the_child_of_an_abandoned_fork_whenever_it_appears(mut keeper: Keeper) {
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
        // A proof of death looks at every child of the keeper.
        let other = keeper.run(worker(2, generation), "exit 3");
        let exit = keeper.exited(other.worker);
        assert_eq!((exit.status, exit.left_behind), (ExitStatus::Code(3), 0));
    }
    // The pending fork of another life spares only the process that may be its child.
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

fn template_death_fails_pending_forks_and_spares_its_children(mut keeper: Keeper) {
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

fn fork_orders_fail_when_the_template_does_not_read(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["speaks and dies"]);
    signal(template.pid, SIGSTOP);
    let mut asked = Vec::new();
    let full = loop {
        let id = worker(1, 1 + asked.len() as u32);
        // A refused order is answered at once; EEXIST for the second order shows that the first one was accepted.
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

fn storm_of_forks_blocks_no_other_life_and_leaves_nothing(mut keeper: Keeper) {
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
            // Between the forks other lives end, each with an orphan, and are proven dead.
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
            Report::Exited { worker: id, exit, .. } => {
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
    // Where several lives end at once the keeper may not know which one left a process, but no forked life did.
    assert!(left <= FORKS / 10);
    assert!(longest < Duration::from_secs(1), "{longest:?}");
    wait_until("nothing is left", SOON, || {
        keeper.children() == [keeper.supervisor, template.pid] && open(&keeper) == before
    });
    keeper.shutdown(0);
}

fn keeper_death_kills_the_children_of_its_templates(mut keeper: Keeper) {
    let template = keeper.template(TEMPLATE, &["forks"]);
    let idle = keeper.fork(worker(1, 1), TEMPLATE);
    let busy = keeper.fork(worker(1, 2), TEMPLATE);
    busy.job("echo up; while :; do sleep 1; done");
    assert_eq!(busy.line(), "up\n");
    let tag = keeper::tag(keeper.pid()).unwrap();
    let sweeper = keeper::Sweeper::new(keeper.pid(), &tag);
    signal(keeper.pid(), SIGKILL);
    assert_eq!(keeper.wait().signal(), Some(libc::SIGKILL));
    wait_until("all are dead", SOON, || ![template.pid, idle.pid, busy.pid].into_iter().any(lives));
    assert!(sweeper.unwrap().sweep(SOON).left.is_empty());
}

fn supervisor_death_kills_templates_and_their_children(mut keeper: Keeper) {
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
