//! Kernel limits in a cgroup delegated to the keeper: controllers enabled, bounds enforced, all undone at the end.
#![allow(unsafe_code, missing_docs, clippy::unwrap_used, clippy::wildcard_enum_match_arm)]
// Both support modules report what the machine lacks.
#![allow(clippy::duplicate_mod)]

#[path = "support/python.rs"]
mod python;
#[path = "support/sandbox.rs"]
mod sandbox;
#[allow(dead_code)]
mod support;

use std::ffi::CString;
use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use model::{Bounds, ExitStatus, Follow, WorkerId};
use sandbox::{Running, Sandbox, Setting, is_root, kill, wait_until};
use serde_json::Value;
use support::{Keeper, worker};
use wire::keeper::{Hello, Order};

/// Not a test: the keeper starts this as its supervisor.
#[test]
fn relay_supervisor() {
    support::relay();
}

/// A cgroup that is delegated to a keeper. Dropping it kills the processes in it.
struct Given(PathBuf);

impl Given {
    /// `None`, with a message, where no cgroup offers a controller.
    fn new(name: &str) -> Option<Given> {
        let mount = sandbox::cgroups().unwrap_or_default();
        let given = Given(mount.join(format!("tv-bounds-{}-{name}", std::process::id())));
        if !is_root() || fs::create_dir(&given.0).is_err() || given.offers().is_empty() {
            sandbox::missing("a controller of cgroup2");
            return None;
        }
        Some(given)
    }

    /// The same with one controller that few machines offer in cgroup v2; the others have it in v1.
    fn with(controller: &str, name: &str) -> Option<Given> {
        let given = Given::new(name)?;
        if !given.has(controller) {
            sandbox::missing(&format!("{controller} of cgroup2"));
            return None;
        }
        Some(given)
    }

    fn offers(&self) -> Vec<String> {
        self.read("cgroup.controllers").split_whitespace().map(str::to_owned).collect()
    }

    fn has(&self, controller: &str) -> bool {
        self.offers().iter().any(|own| own == controller)
    }

    fn read(&self, file: &str) -> String {
        fs::read_to_string(self.0.join(file)).unwrap_or_default().trim().to_owned()
    }

    fn set(&self, file: &str, text: &str) {
        fs::write(self.0.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }

    /// A command line prefix that runs the command in this cgroup.
    fn inside<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        [&["sh", "-c", sandbox::ENTER, self.0.to_str().unwrap()], more].concat()
    }

    fn keeper(&self, without: &str) -> (Keeper, Hello) {
        Keeper::start_with(without, &self.inside(&[]), &[])
    }

    fn keeper_of_user(&self) -> (Keeper, Hello) {
        let user = sandbox::plain_uid().to_string();
        let line = self.inside(&["setpriv", "--reuid", &user, "--regid", &user, "--clear-groups"]);
        Keeper::start_with("", &line, &[])
    }

    /// A sandbox whose keeper gets this cgroup.
    fn sandbox(&self) -> Sandbox {
        let mut sandbox = Sandbox::new(Setting::RootCgroup);
        sandbox.given = Some(self.0.clone());
        sandbox
    }

    /// The names of its child cgroups.
    fn below(&self) -> Vec<String> {
        below(&self.0)
    }

    /// The cgroup of all lives, as a path from here.
    fn keepers(&self) -> String {
        let other = |name: &String| name != "taskvisor-keeper";
        self.below().into_iter().find(other).expect("a cgroup of lives")
    }

    fn lives(&self) -> Vec<String> {
        below(&self.0.join(self.keepers()))
    }

    /// The cgroup of a life.
    fn life(&self, id: WorkerId) -> String {
        format!("{}/{id}", self.keepers())
    }

    fn life_has(&self, id: &str, file: &str, text: &str) -> bool {
        self.read(&format!("{}/{id}/{file}", self.keepers())) == text
    }
}

impl Drop for Given {
    fn drop(&mut self) {
        let gone = sandbox::remove(&self.0);
        assert!(gone || std::thread::panicking(), "{} does not go", self.0.display());
    }
}

fn below(dir: &Path) -> Vec<String> {
    sandbox::dirs(dir).iter().map(|dir| dir.file_name().unwrap().to_str().unwrap().into()).collect()
}

/// One slot for programs with these limits.
fn start_limited<'a>(sandbox: &'a Sandbox, limits: &str) -> Running<'a> {
    let file = sandbox.path("limits.yaml");
    fs::write(&file, format!("pools: [{{name: default, workers: 1, limits: {{{limits}}}}}]\n")).unwrap();
    sandbox.start(&["-c", file.to_str().unwrap()])
}

/// The name of the cgroup of a process.
fn home(pid: i32) -> String {
    let text = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    let path = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap();
    path.rsplit('/').next().unwrap().to_owned()
}

#[test]
fn keeper_alone_in_its_cgroup_delegates_controllers_and_undoes_it_at_its_end() {
    let Some(given) = Given::new("alone") else { return };
    let (mut keeper, hello) = given.keeper("");
    assert!(hello.cgroup && hello.bounds, "{hello:?}");
    assert_eq!([keeper.pid(), keeper.supervisor].map(home), ["taskvisor-keeper", "taskvisor-keeper"]);
    assert_eq!(given.read("cgroup.procs"), "");
    let parked = keeper.park(worker(1, 1));
    let life = given.life(parked.worker);
    for (most, text) in [(Some(2 << 20), "2097152"), (None, "max")] {
        let bounds = Bounds { memory: most, tasks: most };
        keeper.order(&[Order::Bound(parked.worker, bounds), Order::Bound(worker(7, 7), bounds)]);
        let files = [
            ("memory", "memory.max", text),
            ("memory", "memory.oom.group", if most.is_some() { "1" } else { "0" }),
            ("pids", "pids.max", text),
            ("hugetlb", "hugetlb.2MB.max", text),
        ];
        for (_, file, text) in files.iter().filter(|(controller, ..)| given.has(controller)) {
            wait_until(file, || given.read(&format!("{life}/{file}")) == *text);
        }
    }
    keeper.shutdown(0);
    assert_eq!((given.below(), given.read("cgroup.subtree_control")), (Vec::new(), String::new()));
}

#[test]
fn bounds_of_a_life_that_has_ended_are_not_those_of_its_follower_in_the_same_cgroup() {
    let Some(given) = Given::new("late") else { return };
    let (mut keeper, _) = given.keeper("");
    let [ended, other] = [worker(1, 1), worker(2, 1)];
    let first = keeper.park(ended);
    keeper.order(&[Order::Follow(ended, Follow { lives: 1, fence: None })]);
    first.exec(&support::shell("exit 0"));
    let follower = keeper.started(ended.next());
    let _parked = keeper.park(other);
    let bounds = Bounds { memory: Some(2 << 20), tasks: Some(2 << 20) };
    keeper.order(&[Order::Bound(ended, bounds), Order::Bound(other, bounds)]);
    let files = [("memory", "memory.max"), ("pids", "pids.max"), ("hugetlb", "hugetlb.2MB.max")];
    let files = files.iter().filter(|(controller, _)| given.has(controller));
    for (_, file) in files {
        let of = |life: &str| given.read(&format!("{}/{life}/{file}", given.keepers()));
        wait_until("the later order is obeyed", || of(&other.to_string()) == "2097152");
        assert_ne!(of(&home(follower.pid)), "2097152", "{file}");
    }
    keeper.shutdown(0);
}

#[test]
fn keeper_in_a_shared_cgroup_moves_no_process_and_still_gives_lives_cgroups() {
    let Some(given) = Given::new("shared") else { return };
    let line = given.inside(&["sleep", "1000"]);
    let mut other = Command::new(line[0]).args(&line[1..]).spawn().unwrap();
    wait_until("it is there", || given.read("cgroup.procs") == other.id().to_string());
    let (mut keeper, hello) = given.keeper("");
    assert!(hello.cgroup && !hello.bounds, "{hello:?}");
    let own = given.0.file_name().unwrap().to_str().unwrap();
    assert_eq!([keeper.pid(), keeper.supervisor, other.id() as i32].map(home), [own; 3]);
    let parked = keeper.park(worker(1, 1));
    assert_eq!(home(parked.pid), parked.worker.to_string());
    keeper.order(&[Order::Bound(parked.worker, Bounds { memory: Some(1), tasks: Some(1) })]);
    keeper.shutdown(0);
    assert_eq!((given.below(), given.read("cgroup.subtree_control")), (Vec::new(), String::new()));
    other.kill().unwrap();
    other.wait().unwrap();
}

#[test]
fn keeper_delegates_no_controller_that_is_switched_off() {
    let Some(given) = Given::new("off") else { return };
    let (keeper, hello) = given.keeper("memory,pids,hugetlb");
    assert!(hello.cgroup && !hello.bounds, "{hello:?}");
    assert_ne!(home(keeper.pid()), "taskvisor-keeper");
    keeper.shutdown(0);
    for one in given.offers() {
        let (keeper, hello) = given.keeper(&one);
        assert_eq!(hello.bounds, given.offers().len() > 1);
        assert!(!given.read("cgroup.subtree_control").contains(&one));
        keeper.shutdown(0);
    }
}

#[test]
fn keeper_changes_a_systemd_unit_only_if_it_is_delegated() {
    let Some(given) = Given::new("unit.service") else { return };
    let (keeper, hello) = given.keeper("");
    assert!(hello.cgroup && !hello.bounds, "{hello:?}");
    keeper.shutdown(0);
    let path = CString::new(given.0.to_str().unwrap()).unwrap();
    // SAFETY: both strings end in NUL, and the value is as long as is said.
    let set = unsafe { libc::setxattr(path.as_ptr(), c"user.delegate".as_ptr(), b"1".as_ptr().cast(), 1, 0) };
    if set != 0 {
        return sandbox::missing("user.* attributes of cgroups");
    }
    let (keeper, hello) = given.keeper("");
    assert!(hello.bounds && home(keeper.pid()) == "taskvisor-keeper", "{hello:?}");
    keeper.shutdown(0);
}

#[test]
fn plain_user_with_a_delegated_cgroup_has_bounds_too() {
    let Some(given) = Given::new("user.scope") else { return };
    for file in ["", "cgroup.procs", "cgroup.subtree_control", "cgroup.threads"] {
        chown(given.0.join(file), Some(sandbox::plain_uid()), Some(sandbox::plain_uid())).unwrap();
    }
    let (mut keeper, hello) = given.keeper_of_user();
    assert!(hello.bounds && home(keeper.pid()) == "taskvisor-keeper", "{hello:?}");
    let parked = keeper.park(worker(1, 1));
    assert_eq!(home(parked.pid), parked.worker.to_string());
    keeper.shutdown(0);
    assert_eq!((given.below(), given.read("cgroup.subtree_control")), (Vec::new(), String::new()));
}

#[test]
fn killed_keeper_leaves_no_process_and_the_next_start_reruns_its_job() {
    let Some(given) = Given::new("killed") else { return };
    let sandbox = given.sandbox();
    let mut running = sandbox.start(&["-w", "1"]);
    let jid = sandbox.put(&["sh", "-c", "setsid sleep 1000 & exec sleep 1000"]);
    wait_until("both are there", || sandbox.job_processes().len() == 2);
    assert_eq!(home(sandbox.one("tv-supervisor")), "taskvisor-keeper");
    running.signal("KILL");
    running.wait();
    sandbox.assert_nothing_left();
    wait_until("no process lives there", || given.read("cgroup.events").contains("populated 0"));
    assert_eq!(given.below(), ["taskvisor-keeper"]);
    let _running = sandbox.start(&["-w", "1"]);
    wait_until("it runs again", || sandbox.job_processes().len() == 2);
    assert_eq!(sandbox.job(&jid)["attempt"], 1);
    sandbox.ok(&["stop", "--kill"]);
    sandbox.assert_nothing_left();
}

#[test]
fn replacement_supervisor_lives_in_the_cgroup_of_the_keeper() {
    let Some(given) = Given::new("replaced") else { return };
    let sandbox = given.sandbox();
    let mut running = sandbox.start(&["-w", "1"]);
    let first = sandbox.one("tv-supervisor");
    kill(first, "KILL");
    wait_until("another is there", || sandbox.one("tv-supervisor") != first);
    assert_eq!(home(sandbox.one("tv-supervisor")), "taskvisor-keeper");
    sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success());
    assert_eq!((given.below(), given.read("cgroup.subtree_control")), (Vec::new(), String::new()));
}

#[test]
fn limits_of_a_job_are_bounds_of_its_cgroup_while_it_runs() {
    let Some(given) = Given::new("limits") else { return };
    let sandbox = given.sandbox();
    let _running = start_limited(&sandbox, "memory: 62914560B, processes: 9");
    sandbox.put(&["sleep", "1000"]);
    let own = home(sandbox.one("sleep"));
    for (controller, file, text) in [
        ("memory", "memory.max", "62914560"),
        ("pids", "pids.max", "1288"),
        ("hugetlb", "hugetlb.2MB.max", "62914560"),
    ] {
        if given.has(controller) {
            wait_until(file, || given.life_has(&own, file, text));
        }
    }
    sandbox.ok(&["stop", "--kill"]);
    sandbox.assert_nothing_left();
}

#[test]
fn cgroup_of_a_worker_has_the_bounds_of_its_job_in_each_mode() {
    for (mode, more) in [("prefork", 400), ("fork", 400), ("coroutine", 300)] {
        let Some(given) = Given::new(mode) else { return };
        let file = if given.has("memory") { "memory.max" } else { "hugetlb.2MB.max" };
        let sandbox = given.sandbox();
        let pool =
            format!("{{name: default, mode: {mode}, workers: 1, limits: {{memory: 300MiB}}, PYTHON heavy}}");
        let settings = python::file(&sandbox, &format!("pools: [{pool}]\n"));
        let _running = sandbox.start(&["-c", &settings]);
        for (class, megabytes) in [("waits", 300), ("waits.more", more), ("waits", 300)] {
            let jid = python::put(&sandbox, class, "[]");
            let most: u64 = megabytes << 20;
            let is_bounded =
                |id: &String| id.starts_with("1.") && given.life_has(id, file, &most.to_string());
            wait_until(&format!("{mode}: {class} is bounded"), || given.lives().iter().any(is_bounded));
            assert_eq!(sandbox.state(&jid), "running");
            python::touch(&sandbox, "go");
            sandbox.ok(&["job", "wait", &jid]);
            fs::remove_file(sandbox.work("go")).unwrap();
        }
        sandbox.ok(&["stop", "--kill"]);
        sandbox.assert_nothing_left();
    }
}

#[test]
fn keeper_that_may_not_delegate_any_controller_moves_back_to_its_cgroup() {
    let Some(given) = Given::new("refused") else { return };
    for file in ["", "cgroup.procs"] {
        chown(given.0.join(file), Some(sandbox::plain_uid()), Some(sandbox::plain_uid())).unwrap();
    }
    let (keeper, hello) = given.keeper_of_user();
    assert!(hello.cgroup && !hello.bounds, "{hello:?}");
    assert_eq!(given.read("cgroup.procs"), format!("{}\n{}", keeper.pid(), keeper.supervisor));
    assert_eq!(given.below().len(), 1, "{:?}", given.below());
    keeper.shutdown(0);
}

#[test]
fn doctor_reports_delegated_controllers_and_leaves_no_trace() {
    let Some(given) = Given::new("doctor") else { return };
    let sandbox = Sandbox::new(Setting::RootCgroup);
    let line = given.inside(&[env!("CARGO_BIN_EXE_taskvisor"), "doctor", "--json"]);
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).env("TASKVISOR_STATE_DIR", sandbox.path("state"));
    command.env("TASKVISOR_RUN_DIR", sandbox.path("run")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let findings: Value = serde_json::from_slice(&output.stdout).unwrap();
    for (controller, title) in [("memory", "memory controller"), ("pids", "pids controller")] {
        let mut checks = findings["checks"].as_array().unwrap().iter();
        let check = checks.find(|check| check["name"] == title).unwrap();
        assert_eq!(check["state"], if given.has(controller) { "ok" } else { "less" }, "{check}");
    }
    assert_eq!((given.below(), given.read("cgroup.subtree_control")), (Vec::new(), String::new()));
}

/// Takes memory without end once the file `go` exists; the `ulimit` stops it where no bound does.
const HOG: &str =
    "ulimit -v 2000000; (sleep 1000 & while [ ! -e go ]; do sleep 0.01; done; tail /dev/zero; sleep 1000)";

const KILLED: ExitStatus = ExitStatus::Signal { signal: libc::SIGKILL, core: false };

#[test]
fn kernel_kills_all_processes_of_a_life_at_its_memory_bound() {
    let Some(given) = Given::with("memory", "hog") else { return };
    let (mut keeper, _) = given.keeper("");
    let parked = keeper.park(worker(1, 1));
    keeper.order(&[Order::Bound(parked.worker, Bounds { memory: Some(48 << 20), tasks: None })]);
    parked.exec(&support::shell("sleep 1000 & ulimit -v 2000000; tail /dev/zero; sleep 1000"));
    let exit = keeper.exited(parked.worker);
    assert_eq!((exit.status, exit.oom, exit.oom_at_bound), (KILLED, true, true));
    keeper.shutdown(0);
}

#[test]
fn oom_kill_by_a_parent_cgroup_does_not_count_as_the_own_memory_bound() {
    let Some(given) = Given::with("memory", "want") else { return };
    let (mut keeper, _) = given.keeper("");
    given.set("memory.max", "80M");
    given.set("memory.swap.max", "0");
    let parked = keeper.park(worker(1, 1));
    keeper.order(&[Order::Bound(parked.worker, Bounds { memory: Some(1 << 30), tasks: None })]);
    parked.exec(&support::shell("ulimit -v 2000000; exec tail /dev/zero"));
    let exit = keeper.exited(parked.worker);
    assert_eq!((exit.status, exit.oom, exit.oom_at_bound), (KILLED, true, false));
    keeper.shutdown(0);
}

#[test]
fn memory_limit_holds_while_the_supervisor_hangs_and_is_reported() {
    let Some(given) = Given::with("memory", "hang") else { return };
    let sandbox = given.sandbox();
    let _running = start_limited(&sandbox, "memory: 48MB");
    let jid = sandbox.ok(&["put", "--retries", "0", "--", "sh", "-c", HOG]);
    wait_until("it runs", || sandbox.job_processes().len() > 2);
    let supervisor = sandbox.one("tv-supervisor");
    kill(supervisor, "STOP");
    fs::write(sandbox.work("go"), "").unwrap();
    wait_until("the kernel has killed it all", || sandbox.job_processes().is_empty());
    kill(supervisor, "CONT");
    wait_until("it has failed", || sandbox.state(jid.trim()) == "failed");
    let job = sandbox.job(jid.trim()).to_string();
    assert!(job.contains("memory limit"), "{job}");
    assert!(job.contains("the kernel ended it at its limit of 48 MB of memory"), "{job}");
    sandbox.ok(&["stop", "--kill"]);
}

#[test]
fn fork_bomb_cannot_exceed_its_bound_and_dies_as_a_whole() {
    let Some(given) = Given::with("pids", "bomb") else { return };
    let (mut keeper, _) = given.keeper("");
    let parked = keeper.park(worker(1, 1));
    keeper.order(&[Order::Bound(parked.worker, Bounds { memory: None, tasks: Some(20) })]);
    let life = given.life(parked.worker);
    parked.exec(&support::shell(
        "ulimit -u 2000; for i in $(seq 100); do (sleep 1000 &) 2>/dev/null; done; sleep 1000",
    ));
    let refused = || given.read(&format!("{life}/pids.events")).trim_start_matches("max ").parse::<u32>();
    wait_until("forks are refused", || refused().unwrap() > 0);
    assert!(given.read(&format!("{life}/pids.current")).parse::<u32>().unwrap() <= 20);
    keeper.order(&[Order::KillTree(parked.worker)]);
    let exit = keeper.exited(parked.worker);
    assert!(!exit.oom, "{exit:?}");
    keeper.shutdown(0);
}
