//! A taskvisor for one test: directories, a running pool in one of four settings, and views from outside.

// Each test binary uses only a part of this module.
#![allow(dead_code)]

#[path = "missing.rs"]
mod missing;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

#[path = "waiting.rs"]
mod waiting;

#[allow(unused_imports, reason = "no test uses all of it")]
pub use waiting::{stays, wait_until, wait_within};

#[allow(unused_imports, reason = "each test binary uses a part of this")]
pub use missing::missing;

/// The rights with which taskvisor runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Root with a delegated cgroup (where the host has cgroup v2): lives have cgroups with the available controllers.
    RootCgroup,
    /// Root, cgroups switched off.
    Root,
    /// A plain user.
    Plain,
    /// Process 1 of a pid namespace.
    Pid1,
}

pub const SETTINGS: [Setting; 4] = [Setting::RootCgroup, Setting::Root, Setting::Plain, Setting::Pid1];

/// The plain user of this test program: one of its own, so that the processes and limits of another test, which runs at
/// the same time, are another user's.
pub fn plain_uid() -> u32 {
    10_000 + std::process::id() % 50_000
}

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Runs a story in every setting that this machine offers; reports the others.
pub fn in_all_settings(story: impl Fn(&Sandbox)) {
    let mut told = 0;
    for setting in SETTINGS {
        if !is_root() && setting != Setting::Plain {
            missing("root");
            continue;
        }
        println!("-- setting {setting:?}");
        story(&Sandbox::new(setting));
        told += 1;
    }
    assert!(told > 0);
}

pub struct Sandbox {
    dir: tempfile::TempDir,
    pub setting: Setting,
    /// The cgroup for the keeper, in place of a fresh one.
    pub given: Option<PathBuf>,
    keepers: std::sync::Mutex<Vec<u32>>,
}

const CGROUPS: [&str; 2] = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"];

/// The taskvisor binary; `TASKVISOR_TEST_BINARY` names another one than that built with this test.
fn binary() -> String {
    std::env::var("TASKVISOR_TEST_BINARY").unwrap_or_else(|_| env!("CARGO_BIN_EXE_taskvisor").into())
}

/// A shell that enters the cgroup of its first argument, if it may, and executes the rest.
pub const ENTER: &str = "{ echo $$ >\"$0/cgroup.procs\"; } 2>/dev/null; exec \"$@\"";

/// A cgroup in which the test can make cgroups, with the available controllers.
pub fn cgroups() -> Option<PathBuf> {
    let mount =
        CGROUPS.map(PathBuf::from).into_iter().find(|mount| mount.join("cgroup.controllers").exists())?;
    for controller in ["memory", "pids", "hugetlb"] {
        fs::write(mount.join("cgroup.subtree_control"), format!("+{controller}")).ok();
    }
    Some(mount)
}

/// The subdirectories of a directory.
pub fn dirs(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

/// Kills the processes in a cgroup and removes it. False if the kernel takes too long.
pub fn remove(cgroup: &Path) -> bool {
    fs::write(cgroup.join("cgroup.kill"), "1").ok();
    let gone = || {
        remove_empty(cgroup);
        std::thread::park_timeout(Duration::from_millis(2));
        !cgroup.exists()
    };
    (0..2000).any(|_| gone())
}

/// Removes a cgroup and those below it, as far as they are empty.
fn remove_empty(cgroup: &Path) {
    dirs(cgroup).iter().for_each(|below| remove_empty(below));
    fs::remove_dir(cgroup).ok();
}

impl Sandbox {
    pub fn new(setting: Setting) -> Sandbox {
        let dir = tempfile::Builder::new().prefix("taskvisor-test-").tempdir().expect("a directory");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        let sandbox = Sandbox { dir, setting, given: None, keepers: Default::default() };
        fs::create_dir(sandbox.path("work")).expect("mkdir");
        if sandbox.is_other_user() {
            chown(sandbox.dir.path(), Some(plain_uid()), Some(plain_uid())).expect("chown");
            chown(sandbox.path("work"), Some(plain_uid()), Some(plain_uid())).expect("chown");
        }
        sandbox
    }

    /// The cgroup for the next keeper: a killed keeper leaves its own in a state that no process can enter.
    fn given(&self) -> PathBuf {
        if let Some(given) = &self.given {
            return given.clone();
        }
        let name = self.dir.path().file_name().expect("a name").to_string_lossy();
        let dir = cgroups()
            .unwrap_or_default()
            .join(format!("{name}-{}", self.keepers.lock().expect("a list").len()));
        fs::create_dir(&dir).ok();
        dir
    }

    fn is_other_user(&self) -> bool {
        self.setting == Setting::Plain && is_root()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A file that jobs and tests may both touch.
    pub fn work(&self, name: &str) -> PathBuf {
        self.path("work").join(name)
    }

    /// Writes an executable script for jobs.
    pub fn script(&self, name: &str, text: &str) -> String {
        let path = self.work(name);
        fs::write(&path, text).expect("a script");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("chmod");
        path.display().to_string()
    }

    /// A command of the binary, with this sandbox's directories and rights.
    pub fn command(&self, args: &[&str]) -> Command {
        self.with_powers(false, args)
    }

    fn with_powers(&self, daemon: bool, args: &[&str]) -> Command {
        let binary = &binary();
        let mut command = match (self.setting, daemon) {
            (Setting::Plain, _) if is_root() => {
                let mut command = Command::new("setpriv");
                let uid = plain_uid().to_string();
                command
                    .args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "--inh-caps=-all"])
                    .arg(binary);
                command
            }
            (Setting::Pid1, true) => {
                let mut command = Command::new("unshare");
                command.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(binary);
                command
            }
            (Setting::RootCgroup, true) => {
                let mut command = Command::new("sh");
                command.args(["-c", ENTER]).arg(self.given()).arg(binary);
                command
            }
            _ => Command::new(binary),
        };
        // Without root the test cannot read /proc of processes that are not dumpable.
        let without = if is_root() { "cgroup" } else { "cgroup,undumpable" };
        if self.setting != Setting::RootCgroup {
            command.env("TASKVISOR_WITHOUT", without);
        }
        command
            .args(args)
            .current_dir(self.path("work"))
            .env("TASKVISOR_STATE_DIR", self.path("state"))
            .env("TASKVISOR_RUN_DIR", self.path("run"))
            .env_remove("NOTIFY_SOCKET")
            .env("NO_COLOR", "1");
        command
    }

    /// Runs a verb to its end.
    pub fn run(&self, args: &[&str]) -> Output {
        self.command(args).stdin(Stdio::null()).output().expect("taskvisor runs")
    }

    /// Runs a verb that must succeed; returns its stdout.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{args:?}: {}\n{stderr}", output.status);
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs a verb that must fail; returns its exit code and stderr.
    pub fn refused(&self, args: &[&str]) -> (i32, String) {
        let output = self.run(args);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code().unwrap_or_else(|| panic!("{args:?}: {}", output.status)), said)
    }

    /// Runs a verb; returns one JSON value for each line.
    pub fn lines(&self, args: &[&str]) -> Vec<Value> {
        let text = self.ok(args);
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    pub fn json(&self, args: &[&str]) -> Value {
        let text = self.ok(args);
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args:?}: {error}: {text}"))
    }

    /// Puts one program and returns its jid.
    pub fn put(&self, argv: &[&str]) -> String {
        let args: Vec<&str> = ["put", "--"].into_iter().chain(argv.iter().copied()).collect();
        self.ok(&args).trim().to_owned()
    }

    pub fn job(&self, jid: &str) -> Value {
        self.json(&["job", "show", jid, "--json"])
    }

    /// The status; null when no supervisor answers, as between two supervisors.
    pub fn status(&self) -> Value {
        serde_json::from_slice(&self.run(&["status", "--json"]).stdout).unwrap_or_default()
    }

    /// The reasons why the health is not `healthy`, one on each line.
    pub fn reasons(&self) -> String {
        reasons(&self.status())
    }

    #[track_caller]
    pub fn wait_healthy(&self) {
        wait_until("all is well", || self.status()["health"] == "healthy");
    }

    /// Asserts that no job process is left and that the pool runs the next job.
    #[track_caller]
    pub fn assert_calm(&self) {
        wait_until("no process of a job is left", || self.job_processes().is_empty());
        let jid = self.put(&["true"]);
        self.run(&["job", "wait", &jid, "--timeout", "40s"]);
        assert_eq!(self.state(&jid), "complete", "the pool still works");
    }

    pub fn state(&self, jid: &str) -> String {
        self.job(jid)["state"].as_str().expect("a state").to_owned()
    }

    /// Runs `start` in the background and waits until all slots are ready.
    pub fn start(&self, args: &[&str]) -> Running<'_> {
        let running = self.start_raw(args);
        // A killed supervisor may answer until it is gone.
        let keeper = (self.setting != Setting::Pid1).then_some(running.child.id());
        wait_until("all slots are up", || {
            let status = self.status();
            keeper.is_none_or(|keeper| status["keeper"]["pid"] == keeper) && is_up(&status)
        });
        running
    }

    /// Runs `start` in the background without waiting.
    pub fn start_raw(&self, args: &[&str]) -> Running<'_> {
        self.start_with(args, |_| ())
    }

    pub fn start_with(&self, args: &[&str], change: impl FnOnce(&mut Command)) -> Running<'_> {
        let args: Vec<&str> = ["start"].into_iter().chain(args.iter().copied()).collect();
        let log = fs::File::create(self.path("stderr")).expect("a log");
        let mut command = self.with_powers(true, &args);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        change(&mut command);
        let child = command.spawn().expect("taskvisor starts");
        self.keepers.lock().expect("a list").push(child.id());
        Running { child, sandbox: self }
    }

    /// Runs `start` through another program that executes it, without waiting.
    pub fn start_under(&self, wrapper: &[&str], args: &[&str]) -> Running<'_> {
        self.start_with(args, |command| {
            let mut outer = Command::new(wrapper[0]);
            outer.args(&wrapper[1..]).arg(command.get_program()).args(command.get_args());
            outer.current_dir(self.path("work"));
            for (name, value) in command.get_envs() {
                match value {
                    Some(value) => outer.env(name, value),
                    None => outer.env_remove(name),
                };
            }
            let log = fs::File::create(self.path("stderr")).expect("a log");
            outer.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
            *command = outer;
        })
    }

    pub fn stderr(&self) -> String {
        fs::read_to_string(self.path("stderr")).unwrap_or_default()
    }

    /// Every living process of this sandbox, found by its arguments, environment or working directory.
    pub fn processes(&self) -> Vec<Seen> {
        let needle = self.dir.path().file_name().expect("a name").to_str().expect("text");
        let own = std::process::id() as i32;
        pids().filter(|pid| *pid != own).filter_map(Seen::look).filter(|seen| seen.mentions(needle)).collect()
    }

    /// The processes of jobs: those of the sandbox that are not taskvisor's own.
    pub fn job_processes(&self) -> Vec<Seen> {
        let own = |seen: &Seen| {
            seen.comm.starts_with("taskvisor") || seen.comm.starts_with("tv-") || seen.comm == "unshare"
        };
        self.processes().into_iter().filter(|seen| !own(seen)).collect()
    }

    /// Waits for the only process with this name; returns its pid.
    pub fn one(&self, comm: &str) -> i32 {
        let mut pid = None;
        wait_until(&format!("one process is called '{comm}'"), || {
            pid = self.only(comm);
            pid.is_some()
        });
        pid.expect("a process")
    }

    fn only(&self, comm: &str) -> Option<i32> {
        let found: Vec<Seen> = self.processes().into_iter().filter(|seen| seen.comm == comm).collect();
        (found.len() == 1).then(|| found[0].pid)
    }

    pub fn assert_nothing_left(&self) {
        wait_until("no process is left", || self.processes().is_empty());
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for seen in self.processes() {
            kill(seen.pid, "KILL");
        }
        // A killed keeper leaves its cgroup to the next start on its state directory; here no start follows.
        let own = self.dir.path().file_name().expect("a name").to_string_lossy().into_owned();
        for dir in CGROUPS.iter().flat_map(|mount| dirs(Path::new(mount))) {
            let name = dir.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let is_of = |keeper: &u32| name.starts_with(&format!("taskvisor-{keeper}-"));
            if name.starts_with(&own) {
                remove(&dir);
            } else if self.keepers.lock().expect("a list").iter().any(is_of) {
                remove_empty(&dir);
            }
        }
    }
}

/// The slots of all pools.
pub fn slots(status: &Value) -> Vec<&Value> {
    let pools = status["pools"].as_array().into_iter().flatten();
    pools.flat_map(|pool| pool["slots"].as_array().into_iter().flatten()).collect()
}

/// Whether all slots are ready or busy.
pub fn is_up(status: &Value) -> bool {
    let slots = slots(status);
    !slots.is_empty() && slots.iter().all(|slot| slot["state"] == "ready" || slot["state"] == "busy")
}

pub fn reasons(status: &Value) -> String {
    let reasons = status["reasons"].as_array().into_iter().flatten();
    reasons.filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
}

/// A process as /proc shows it.
pub struct Seen {
    pub pid: i32,
    pub comm: String,
    pub state: char,
    text: String,
}

impl std::fmt::Debug for Seen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text: String = self.text.chars().take(100).collect();
        write!(f, "{} {} {} {text}", self.pid, self.comm, self.state)
    }
}

impl Seen {
    fn look(pid: i32) -> Option<Seen> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let (open, close) = (stat.find('(')?, stat.rfind(')')?);
        let state = stat[close + 2..].chars().next()?;
        if state == 'Z' || state == 'X' {
            return None;
        }
        let read = |name: &str| fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap_or_default();
        let text = String::from_utf8_lossy(&[read("cmdline"), read("environ")].concat()).replace('\0', " ");
        let text = format!("{text} {}", cwd.display());
        Some(Seen { pid, comm: stat[open + 1..close].to_owned(), state, text })
    }

    fn mentions(&self, needle: &str) -> bool {
        self.text.contains(needle)
    }
}

pub fn pids() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

pub fn kill(pid: i32, signal: &str) {
    let signal: nix::sys::signal::Signal = format!("SIG{signal}").parse().expect("a signal");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).ok();
}

/// CPU time used, in ticks of 10 ms.
pub fn cpu_ticks(pid: i32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let fields: Vec<&str> = stat[stat.rfind(')').expect("a name") + 2..].split(' ').collect();
    fields[11].parse::<u64>().expect("ticks") + fields[12].parse::<u64>().expect("ticks")
}

pub fn alive(pid: i32) -> bool {
    Seen::look(pid).is_some()
}

/// A started taskvisor; killed when dropped.
pub struct Running<'a> {
    pub child: Child,
    sandbox: &'a Sandbox,
}

impl Running<'_> {
    /// Sends a signal to the keeper.
    pub fn signal(&self, signal: &str) {
        match self.sandbox.setting {
            // The child here is `unshare`; the keeper is process 1 below it, unless it has ended.
            Setting::Pid1 => {
                let mut keeper = None;
                wait_until("process 1 is there, or has ended", || {
                    keeper = self.sandbox.only("taskvisor");
                    keeper.is_some() || !alive(self.child.id() as i32)
                });
                keeper.into_iter().for_each(|keeper| kill(keeper, signal));
            }
            Setting::RootCgroup | Setting::Root | Setting::Plain => kill(self.child.id() as i32, signal),
        }
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("taskvisor has ended", || {
            status = self.child.try_wait().expect("wait");
            status.is_some()
        });
        status.expect("a status")
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("-- stderr of taskvisor:\n{}", self.sandbox.stderr());
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("metadata").mode() & 0o777
}
