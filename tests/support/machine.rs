//! A machine with a real systemd, in namespaces of its own (`machine.sh`).

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::sandbox::{is_root, missing, wait_until};

/// Longest time the kernel may take to end a machine.
const SOON: Duration = Duration::from_secs(10);

pub struct Machine {
    process: Child,
    /// The pid of its process 1, seen from outside.
    init: i32,
    cgroup: PathBuf,
    /// Its cgroup in the hierarchies of cgroup v1, if these limit memory.
    v1: Option<String>,
    dir: tempfile::TempDir,
}

impl Machine {
    /// Boots a machine; `None`, with the reason printed, where this host cannot.
    pub fn boot() -> Option<Machine> {
        Machine::boot_with(false)
    }

    /// The same, with a memory controller for its units.
    pub fn boot_with_memory() -> Option<Machine> {
        let Some(mount) = mount() else { return Machine::boot() };
        if read(&mount.join("cgroup.controllers")).contains("memory") {
            return Machine::boot();
        }
        if !Path::new("/sys/fs/cgroup/memory/cgroup.procs").exists() {
            missing("a memory controller");
            return None;
        }
        Machine::boot_with(true)
    }

    fn boot_with(v1: bool) -> Option<Machine> {
        if let Some(why) = why_not() {
            println!("no systemd of our own: {why}");
            missing("systemd");
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("taskvisor-machine-{}-{number}", std::process::id());
        let cgroup = mount().expect("cgroup v2").join(&name);
        let v1 = v1.then_some(name);
        let console = fs::File::create(dir.path().join("console")).expect("a file");
        let mut command = Command::new("bash");
        command.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/machine.sh"));
        command.arg(env!("CARGO_BIN_EXE_taskvisor")).arg(concat!(env!("CARGO_MANIFEST_DIR"), "/systemd"));
        command
            .arg(&cgroup)
            .arg(dir.path())
            .stdin(Stdio::null())
            .stdout(console.try_clone().expect("a duplicate"));
        command.args(&v1);
        let process = command.stderr(console).process_group(0).spawn().expect("bash");
        let mut machine = Machine { process, init: 0, cgroup, v1, dir };
        machine.wait_for_init();
        wait_until("systemd is up", || {
            let state = machine.try_run(&["systemctl", "is-system-running"]);
            matches!(state.trim(), "running" | "degraded")
        });
        Some(machine)
    }

    fn wait_for_init(&mut self) {
        let list = format!("/proc/{0}/task/{0}/children", self.process.id());
        wait_until("process 1 is there", || {
            if let Ok(Some(status)) = self.process.try_wait() {
                panic!("the machine does not boot: {status}\n{}", self.console());
            }
            let children = fs::read_to_string(&list).unwrap_or_default();
            self.init = children.trim().parse().unwrap_or(0);
            let comm = fs::read_to_string(format!("/proc/{}/comm", self.init)).unwrap_or_default();
            comm.trim() == "systemd"
        });
        // Its parent is not in the machine, and would block the delegation of controllers.
        fs::write(home().join("cgroup.procs"), self.process.id().to_string()).expect("the parent moves");
    }

    pub fn console(&self) -> String {
        fs::read_to_string(self.dir.path().join("console")).unwrap_or_default()
    }

    /// A command that runs in the machine.
    pub fn command(&self, line: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        let init = self.init.to_string();
        command.args(["-t", &init, "-m", "-u", "-i", "-p", "-C", "-r", "-w", "env", "-i"]);
        command.arg("PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").args(line).stdin(Stdio::null());
        command
    }

    /// The output of a command, whatever its exit code.
    pub fn try_run(&self, line: &[&str]) -> String {
        let output = self.command(line).output().expect("nsenter");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The output of a command that must succeed.
    #[track_caller]
    pub fn run(&self, line: &[&str]) -> String {
        let output = self.command(line).output().expect("nsenter");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{line:?}: {}\n{stderr}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// A property of a unit.
    pub fn show(&self, unit: &str, property: &str) -> String {
        self.run(&["systemctl", "show", unit, "--value", "-p", property]).trim().to_owned()
    }

    /// The processes of a unit by name, with their pids in the machine.
    pub fn processes(&self, unit: &str) -> Vec<(String, i32)> {
        let mut found = Vec::new();
        for dir in below(&self.unit_cgroup(unit)) {
            for pid in read(&dir.join("cgroup.procs")).lines() {
                let status = read(Path::new(&format!("/proc/{pid}/status")));
                let field = |name: &str| {
                    let line = status.lines().find_map(|line| line.strip_prefix(name));
                    line.and_then(|line| line.split_whitespace().last()).unwrap_or_default().to_owned()
                };
                // The last pid is that of the innermost namespace.
                found.push((field("Name:"), field("NSpid:").parse().unwrap_or(0)));
            }
        }
        found
    }

    /// The only process of a unit with this name.
    pub fn one(&self, unit: &str, name: &str) -> i32 {
        let mut pid = 0;
        wait_until(&format!("{unit} has one process {name}"), || {
            let found = self.processes(unit);
            let mut named = found.iter().filter(|(own, _)| own == name);
            pid = named.next().map_or(0, |(_, pid)| *pid);
            pid != 0 && named.next().is_none()
        });
        pid
    }

    /// The cgroup of a unit, seen from outside.
    pub fn unit_cgroup(&self, unit: &str) -> PathBuf {
        match unit.split_once('@') {
            Some((template, _)) => {
                let slice = self.cgroup.join(format!("system.slice/system-{template}.slice"));
                slice.join(format!("{unit}.service"))
            }
            None => self.cgroup.join(format!("system.slice/{unit}.service")),
        }
    }

    /// Delegates a controller that systemd does not know to its units. False, with a message, where there is none.
    pub fn hand_down(&self, controller: &str) -> bool {
        let dirs = [mount().expect("cgroup v2"), self.cgroup.clone(), self.cgroup.join("system.slice")];
        let handed = dirs
            .iter()
            .all(|dir| fs::write(dir.join("cgroup.subtree_control"), format!("+{controller}")).is_ok());
        if !handed {
            missing(&format!("{controller} of cgroup2"));
        }
        handed
    }

    /// The number of processes of a unit that the kernel's OOM killer has killed.
    pub fn oom_kills(&self, unit: &str) -> u64 {
        let own = self.unit_cgroup(unit);
        let below = own.strip_prefix(&self.cgroup).expect("a cgroup of the machine");
        let file = match &self.v1 {
            Some(name) => {
                Path::new("/sys/fs/cgroup/memory").join(name).join(below).join("memory.oom_control")
            }
            None => own.join("memory.events"),
        };
        let text = read(&file);
        let kills = text.lines().find_map(|line| line.strip_prefix("oom_kill "));
        kills.and_then(|kills| kills.parse().ok()).unwrap_or(0)
    }

    /// All cgroups of the machine, parents first.
    fn cgroups(&self) -> Vec<PathBuf> {
        let mut found = below(&self.cgroup);
        if let Some(name) = &self.v1 {
            let hierarchies = fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
            found.extend(hierarchies.flat_map(|hierarchy| below(&hierarchy.path().join(name))));
        }
        found
    }

    pub fn signal(&self, pid: i32, signal: &str) {
        self.run(&["bash", "-c", &format!("kill -{signal} {pid}")]);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let journal = self.try_run(&["journalctl", "--no-pager", "-o", "cat", "-u", "taskvisor*"]);
            eprintln!("-- console of the machine:\n{}\n-- its journal:\n{journal}", self.console());
        }
        // The kernel kills all processes of a pid namespace with its process 1.
        self.process.kill().ok();
        self.process.wait().ok();
        fs::write(self.cgroup.join("cgroup.kill"), "1").ok();
        let end = Instant::now() + SOON;
        while !self.cgroups().is_empty() && Instant::now() < end {
            for dir in self.cgroups().iter().rev() {
                fs::remove_dir(dir).ok();
            }
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }
}

/// A directory and all below it, parents first.
pub fn below(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    if dir.is_dir() {
        found.push(dir.to_owned());
    }
    for entry in fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(below(&entry.path()));
        }
    }
    found
}

pub fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The mount point of cgroup v2.
fn mount() -> Option<PathBuf> {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
    mounts.into_iter().find(|mount| mount.join("cgroup.controllers").exists())
}

/// The cgroup of this process.
fn home() -> PathBuf {
    let own = read(Path::new("/proc/self/cgroup"));
    let path = own.lines().find_map(|line| line.strip_prefix("0::/")).unwrap_or_default();
    mount().expect("cgroup v2").join(path)
}

fn why_not() -> Option<String> {
    if !is_root() {
        return Some("it needs root".into());
    }
    if !Path::new("/lib/systemd/systemd").exists() {
        return Some("/lib/systemd/systemd is not installed".into());
    }
    let Some(mount) = mount() else { return Some("cgroup v2 is not mounted".into()) };
    let probe = mount.join(format!("taskvisor-machine-probe-{}", std::process::id()));
    if let Err(error) = fs::create_dir(&probe).and_then(|()| fs::remove_dir(&probe)) {
        return Some(format!("{} takes no directory: {error}", mount.display()));
    }
    let test = "root=$(mktemp -d); mount -t tmpfs test $root; mkdir $root/{f,u,w}; \
                mount -t overlay test -o lowerdir=/,upperdir=$root/u,workdir=$root/w $root/f; umount $root/f $root; rmdir $root";
    let mut unshare = Command::new("unshare");
    unshare.args(["--fork", "--pid", "--mount", "--uts", "--ipc", "--cgroup", "bash", "-ec", test]);
    let output = unshare.output().ok()?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    (!output.status.success()).then(|| format!("namespaces or overlays are not to be had: {stderr}"))
}
