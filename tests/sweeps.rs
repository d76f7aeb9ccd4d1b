//! The sweep of a start after a dead keeper: it kills all processes left of that keeper's jobs, and no others.

#[path = "support/sandbox.rs"]
mod sandbox;

use std::process::{Child, Command, Stdio};

use sandbox::{Running, SETTINGS, Sandbox, Setting, alive, is_root, kill, wait_until};

/// Kills keeper and supervisor so that neither can clean up.
fn kill_both(sandbox: &Sandbox, running: Running<'_>) {
    let (keeper, supervisor) = (sandbox.one("taskvisor"), sandbox.one("tv-supervisor"));
    kill(supervisor, "STOP");
    kill(keeper, "STOP");
    kill(supervisor, "KILL");
    kill(keeper, "KILL");
    wait_until("both are dead", || !alive(supervisor) && !alive(keeper));
    drop(running);
}

/// Shells that start one program after another, in sessions of their own.
struct Churn(Vec<Child>);

impl Churn {
    fn new(shells: usize) -> Churn {
        let shell = |_| {
            // The shells end when the test is killed.
            let mut command = Command::new("setpriv");
            command.args(["--pdeathsig", "KILL", "setsid", "sh", "-c", "while :; do /bin/true; done"]);
            command.stdin(Stdio::null());
            command.spawn().expect("a shell")
        };
        Churn((0..shells).map(shell).collect())
    }
}

impl Drop for Churn {
    fn drop(&mut self) {
        for child in &mut self.0 {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[test]
fn start_succeeds_on_a_machine_that_executes_programs_all_the_time() {
    for setting in SETTINGS.into_iter().filter(|setting| is_root() || *setting == Setting::Plain) {
        let sandbox = Sandbox::new(setting);
        let mut running = sandbox.start(&["-w", "1"]);
        let _churn = Churn::new(8);
        sandbox.assert_calm();
        sandbox.ok(&["stop"]);
        assert!(running.wait().success(), "{}", sandbox.stderr());
        drop(running);
        let lock = || std::fs::read_to_string(sandbox.path("state/lock")).expect("the lock");
        assert_eq!(lock(), "", "{setting:?}: a stop that has proven the end leaves nothing to look for");
        let running = sandbox.start(&["-w", "1"]);
        assert!(lock().contains("marked"), "{setting:?}: {}", lock());
        kill_both(&sandbox, running);
        let mut running = sandbox.start(&["-w", "1"]);
        sandbox.assert_calm();
        sandbox.ok(&["stop"]);
        assert!(running.wait().success(), "{}", sandbox.stderr());
        sandbox.assert_nothing_left();
    }
}

/// Leaves processes that hide, each in its own session, and writes their pids to `hidden`: one is not dumpable, one
/// has overwritten its environment, one never had any, the first thread of one has ended.
const HIDES: &str = r#"#!/usr/bin/env python3
import ctypes, os, threading, time
libc = ctypes.CDLL(None, use_errno=True)
def not_dumpable():
    libc.prctl(4, 0, 0, 0, 0)
def overwritten():
    with open("/proc/self/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    start, end = int(fields[47]), int(fields[48])
    ctypes.memset(start, 0, end - start)
def bare():
    os.execve("/bin/sleep", ["sleep", "1000"], {})
def without_first_thread():
    os.environ.clear()
    threading.Thread(target=time.sleep, args=(1000,)).start()
    libc.prctl(4, 0, 0, 0, 0)
    libc.syscall(60, 0)
pids = []
for hide in not_dumpable, overwritten, bare, without_first_thread:
    ready, hidden = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        if hide is bare:
            hide()
        os.set_inheritable(hidden, False)
        if hide is without_first_thread:
            threading.Timer(0.2, os.close, [hidden]).start()
        else:
            hide()
            os.close(hidden)
        if hide is without_first_thread:
            hide()
        time.sleep(1000)
    os.close(hidden)
    os.read(ready, 1)
    pids.append(str(pid))
with open("hidden.new", "w") as file:
    file.write("\n".join(pids))
os.rename("hidden.new", "hidden")
time.sleep(1000)
"#;

fn hidden(sandbox: &Sandbox) -> Vec<i32> {
    let mut pids = Vec::new();
    wait_until("the job has left what hides", || {
        let text = std::fs::read_to_string(sandbox.work("hidden")).unwrap_or_default();
        pids = text.lines().flat_map(str::parse).collect();
        pids.len() == 4
    });
    std::fs::remove_file(sandbox.work("hidden")).expect("rm");
    pids
}

#[test]
fn start_kills_hidden_processes_before_their_job_runs_again() {
    for setting in [Setting::Root, Setting::Plain] {
        if setting == Setting::Root && !is_root() {
            sandbox::missing("root");
            continue;
        }
        let sandbox = Sandbox::new(setting);
        let script = sandbox.script("hides", HIDES);
        let running = sandbox.start(&["-w", "1"]);
        let jid = sandbox.put(&[&script]);
        let first = hidden(&sandbox);
        kill_both(&sandbox, running);
        let left = first.iter().filter(|pid| alive(**pid)).count();
        assert_eq!(left, 3, "they outlive both, though one looks like a zombie");
        let running = sandbox.start(&["-w", "1"]);
        assert!(!first.iter().any(|pid| threads(*pid) > 0), "{setting:?}: {first:?}");
        let second = hidden(&sandbox);
        running.signal("KILL");
        wait_until("the supervisor has gone", || sandbox.job_processes().is_empty());
        wait_until("it has ended what hides", || !second.iter().any(|pid| threads(*pid) > 0));
        drop(running);
        let mut running = sandbox.start(&["-w", "1"]);
        hidden(&sandbox);
        sandbox.ok(&["job", "cancel", "--wait", &jid]);
        sandbox.ok(&["stop"]);
        assert!(running.wait().success());
        sandbox.assert_nothing_left();
    }
}

/// How many threads of a process are alive.
fn threads(pid: i32) -> usize {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("stat")).ok());
    stats.filter(|stat| !stat.contains(") Z") && !stat.contains(") X")).count()
}

#[test]
fn start_is_refused_and_names_an_orphan_that_it_cannot_kill() {
    if !is_root() {
        return sandbox::missing("root");
    }
    let sandbox = Sandbox::new(Setting::Plain);
    let setuid = sandbox.path("become-root");
    std::fs::copy("/usr/bin/setpriv", &setuid).expect("a copy");
    std::os::unix::fs::chown(&setuid, Some(0), Some(0)).expect("chown");
    std::fs::set_permissions(&setuid, std::os::unix::fs::PermissionsExt::from_mode(0o4755)).expect("chmod");
    let running = sandbox.start(&["-w", "1"]);
    let become_root = format!("{} --reuid 0 --regid 0 --clear-groups sleep 1234", setuid.display());
    let jid = sandbox.put(&["sh", "-c", &format!("setsid {become_root} & touch begun; wait")]);
    let is_it = |pid: &i32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line == b"sleep\x001234\0")
    };
    let find = || sandbox::pids().find(is_it).unwrap_or(0);
    wait_until("it runs as root", || find() != 0 && sandbox.work("begun").exists());
    let root = find();
    kill_both(&sandbox, running);
    std::fs::remove_file(sandbox.work("begun")).expect("rm");
    let (code, said) = sandbox.refused(&["start", "-w", "1"]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("{root} (sleep): it runs as another user")), "{said}");
    assert!(alive(root) && !sandbox.work("begun").exists(), "its job did not run beside it");
    kill(root, "KILL");
    let mut running = sandbox.start(&["-w", "1"]);
    wait_until("it runs again", || sandbox.work("begun").exists());
    wait_until("it is root again", || find() != 0);
    kill(find(), "KILL");
    sandbox.ok(&["job", "wait", &jid]);
    sandbox.ok(&["stop"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
}

#[test]
fn start_without_marks_names_a_process_that_it_cannot_inspect() {
    let sandbox = Sandbox::new(Setting::Plain);
    let running = sandbox.start_under(&["prlimit", "--locks=1000:1000"], &["-w", "1"]);
    let script = sandbox.script("hides", HIDES);
    sandbox.put(&[&script]);
    let left = hidden(&sandbox);
    assert!(!std::fs::read_to_string(sandbox.path("state/lock")).expect("the lock").contains("marked"));
    let _churn = Churn::new(2);
    kill_both(&sandbox, running);
    let (code, said) = sandbox.refused(&["start", "-w", "1"]);
    assert_eq!(code, 69, "{said}");
    assert!(said.contains(&format!("{} (python3): it could not be looked at", left[0])), "{said}");
    left.iter().for_each(|pid| kill(*pid, "KILL"));
    let mut running = sandbox.start(&["-w", "1"]);
    sandbox.ok(&["stop", "--kill"]);
    assert!(running.wait().success(), "{}", sandbox.stderr());
}

#[test]
fn a_start_on_a_copy_of_the_state_directory_is_refused_and_kills_nothing() {
    sandbox::in_all_settings(|sandbox| {
        let mut running = sandbox.start(&["-w", "1"]);
        let jid = sandbox.put(&["sh", "-c", "setsid sleep 1000 & touch begun; wait"]);
        wait_until("the job runs", || sandbox.work("begun").exists());
        let own = [sandbox.one("taskvisor"), sandbox.one("tv-supervisor")];
        let processes: Vec<i32> =
            own.into_iter().chain(sandbox.job_processes().iter().map(|seen| seen.pid)).collect();
        let copied =
            Command::new("cp").arg("-a").args([sandbox.path("state"), sandbox.path("copy")]).status();
        assert!(copied.expect("cp").success());
        let mut start = sandbox.command(&["start", "-w", "1"]);
        start.env("TASKVISOR_STATE_DIR", sandbox.path("copy")).env("TASKVISOR_RUN_DIR", sandbox.path("run2"));
        let output = start.stdin(Stdio::null()).output().expect("taskvisor runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{said}");
        assert!(said.contains("is a copy of the state directory of a supervisor that runs"), "{said}");
        assert!(processes.iter().all(|pid| alive(*pid)), "{:?}", sandbox.processes());
        assert_eq!(
            (sandbox.state(&jid).as_str(), &sandbox.job(&jid)["interruptions"]),
            ("running", &0.into())
        );
        sandbox.ok(&["stop", "--kill"]);
        assert!(running.wait().success());
        // No supervisor runs any more that the copy could be confused with.
        let mut start = sandbox.command(&["start", "-w", "1", "--burst"]);
        start.env("TASKVISOR_STATE_DIR", sandbox.path("copy")).env("TASKVISOR_RUN_DIR", sandbox.path("run2"));
        let mut second = start.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("taskvisor runs");
        std::fs::remove_file(sandbox.work("begun")).expect("rm");
        wait_until("the copy runs its job", || sandbox.work("begun").exists());
        kill(second.id() as i32, "QUIT");
        kill(second.id() as i32, "QUIT");
        second.wait().expect("wait");
        sandbox.assert_nothing_left();
    });
}
