//! A cgroup of its own for each life (v2 only): `taskvisor-<pid>-<start time>/<slot>.<generation>` in the one that the keeper
//! was given.
//!
//! A keeper locks its directory. So another keeper can tell the directory of a dead keeper from that of a living one in
//! another pid namespace, which it cannot see.
//!
//! A directory serves one life at a time, and the next one only as it was made (see `leaf`): once `cgroup.kill` was
//! written to it, a child cloned into it might die at birth.

use std::ffi::CString;
use std::fs;
use std::io::{self, Read, Write};
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{AT_FDCWD, Flock, FlockArg, OFlag, openat};
use nix::sys::stat::{Mode, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};

use super::children::start_of;
use super::controllers::{self, Controllers};
use super::leaf::Leaves;
use super::setup::{SWITCHED_OFF, Without};
use super::{sys, tree};
use model::{Bounds, ExitStatus, WorkerId};

const PREFIX: &str = "taskvisor-";

/// Limit of the directories removed in one turn: a job may leave thousands, and the keeper has others to look after.
const REMOVED_AT_A_TIME: usize = 1000;

/// The keeper's directory of cgroups.
pub(super) struct Cgroups {
    path: PathBuf,
    dir: Flock<OwnedFd>,
    /// Whether clone3 creates a child in its cgroup; else the child enters by itself.
    pub by_clone: bool,
    /// The controllers with which the kernel keeps limits there, or why it does not.
    pub controllers: Result<Controllers, String>,
    leaves: Leaves,
}

impl Cgroups {
    /// Makes the directory and tries it out. An error says why cgroups are of no use here.
    pub(crate) fn find(without: Without) -> Result<Self, String> {
        if without.cgroup {
            return Err(SWITCHED_OFF.into());
        }
        let parent = given_directory().ok_or("not mounted, or this process is not below the mount")?;
        remove_left_over(&parent);
        let refused =
            |error: io::Error| format!("failed to make a directory in {}: {error}", parent.display());
        let path = parent.join(directory_name(std::process::id() as i32).map_err(refused)?);
        fs::create_dir(&path).map_err(refused)?;
        let dir = lock(&path).ok_or("failed to lock a directory of cgroups")?;
        let (by_clone, leaves) = (!without.clone3, Leaves::new());
        let mut cgroups = Cgroups { path, dir, by_clone, controllers: Err(String::new()), leaves };
        if cgroups.by_clone && !cgroups.probe() {
            cgroups.by_clone = false;
        }
        // An early return drops `cgroups`, which removes the directory.
        if !cgroups.by_clone && !cgroups.probe() {
            return Err("a child cannot be put there, or not be killed there (Linux 5.14)".into());
        }
        cgroups.controllers = Controllers::take(&parent, &cgroups.path, without);
        Ok(cgroups)
    }

    /// Whether a child gets into a fresh directory and can be killed there.
    fn probe(&self) -> bool {
        let leaf = if self.by_clone { "probe-clone" } else { "probe" };
        let Ok(dir) = self.make_leaf(leaf) else { return false };
        // SAFETY: the keeper has one thread.
        let forked = unsafe { if self.by_clone { sys::clone_into(Some(dir.as_fd())) } else { sys::fork() } };
        let ok = match forked {
            Ok(0) => sys::exit_now(i32::from(!self.by_clone && enter(&dir).is_err())),
            Ok(pid) => sys::wait_for(pid).is_some_and(|reaped| reaped.status == ExitStatus::Code(0)),
            Err(_) => false,
        };
        let ok = ok && write_at(&dir, "cgroup.kill", b"1").is_ok();
        _ = unlinkat(&*self.dir, leaf, UnlinkatFlags::RemoveDir);
        ok
    }

    /// A fresh directory for a life.
    pub(crate) fn make(&self, worker: WorkerId) -> nix::Result<OwnedFd> {
        self.make_leaf(&worker.to_string())
    }

    /// The directory that the life before has handed on, or a fresh one that this life can hand on.
    pub(crate) fn take_over(&mut self, worker: WorkerId) -> nix::Result<OwnedFd> {
        if self.leaves.has(worker) {
            return self.open(worker);
        }
        let dir = self.make(worker)?;
        if self.by_clone {
            self.leaves.watch(worker, &self.path.join(worker.to_string()));
        }
        Ok(dir)
    }

    /// The directory of a life once more.
    pub(crate) fn open(&self, worker: WorkerId) -> nix::Result<OwnedFd> {
        self.open_leaf(&self.leaves.name(worker))
    }

    /// Gives the directory of a life to the next life of its slot. False if some process lives there, or if it is not as
    /// it was made.
    pub(crate) fn hand_on(&mut self, worker: WorkerId) -> bool {
        let is_free = self.leaves.is_as_made(worker) && is_at_rest(&self.read(worker, "cgroup.events"));
        if is_free {
            self.leaves.hand_on(worker);
        }
        is_free
    }

    fn make_leaf(&self, name: &str) -> nix::Result<OwnedFd> {
        mkdirat(&*self.dir, name, Mode::from_bits_truncate(0o755))?;
        self.open_leaf(name)
    }

    fn open_leaf(&self, name: &str) -> nix::Result<OwnedFd> {
        let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
        openat(&*self.dir, name, flags, Mode::empty())
    }

    /// Moves a child of ours alone into a life's directory, unless it was born there: a move may wait for an RCU grace
    /// period of the kernel, and block us.
    pub(crate) fn adopt(&self, worker: WorkerId, pid: i32) -> io::Result<()> {
        // A child that has ended needs no cgroup.
        if self.inhabitants(worker).lines().any(|line| line.parse() == Ok(pid)) || sys::has_ended(pid) {
            return Ok(());
        }
        write_at(&self.dir, &format!("{}/cgroup.procs", self.leaves.name(worker)), pid.to_string().as_bytes())
    }

    /// Kills every process in the cgroup of a life.
    pub(crate) fn kill(&self, worker: WorkerId) {
        _ = write_at(&self.dir, &format!("{}/cgroup.kill", self.leaves.name(worker)), b"1");
    }

    /// Removes the directory, with those that the job has made below it. True proves that no process lives there: the
    /// kernel refuses to remove a cgroup that has one.
    pub(crate) fn remove(&mut self, worker: WorkerId) -> bool {
        let removed = self.try_remove(worker);
        if removed {
            self.leaves.removed(worker);
        }
        removed
    }

    fn try_remove(&self, worker: WorkerId) -> bool {
        let name = self.leaves.name(worker);
        match unlinkat(&*self.dir, name.as_str(), UnlinkatFlags::RemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => return true,
            Err(_) if is_inhabited(&self.read(worker, "cgroup.events")) => return false,
            Err(_) => {}
        }
        match CString::new(name).map(|name| tree::remove(&*self.dir, &name, REMOVED_AT_A_TIME)) {
            Ok(Ok(()) | Err(Errno::ENOENT)) => true,
            // More directories are left, or a process has come meanwhile.
            Ok(Err(Errno::EAGAIN | Errno::EBUSY)) | Err(_) => false,
            // A directory in there belongs to another user, who must remove it. It does no harm: no other life has this
            // name.
            Ok(Err(_)) => !is_inhabited(&self.read(worker, "cgroup.events")),
        }
    }

    /// Has the kernel limit a life to these bounds. A bound that the kernel refuses, as the error says, is still enforced by
    /// measuring.
    pub(crate) fn bound(&self, worker: WorkerId, bounds: Bounds) -> io::Result<()> {
        let Ok(controllers) = &self.controllers else { return Ok(()) };
        let taken = self.read(worker, "memory.current").trim().parse().unwrap_or(0);
        let mut result = Ok(());
        for (file, text) in controllers.settings(bounds, taken) {
            let written =
                write_at(&self.dir, &format!("{}/{file}", self.leaves.name(worker)), text.as_bytes());
            // The others make these two exact, and not every kernel has them.
            if ["memory.max", "pids.max"].contains(&file) {
                result = result.and(written);
            }
        }
        // A life that has ended needs no bounds.
        if self.path.join(self.leaves.name(worker)).exists() { result } else { Ok(()) }
    }

    /// Whether the out-of-memory killer struck in a life's cgroup, and whether it did so at the life's own bound.
    pub(crate) fn oom(&self, worker: WorkerId) -> (bool, bool) {
        if !self.controllers.as_ref().is_ok_and(|controllers| controllers.has("memory")) {
            return (false, false);
        }
        oom_in(&self.read(worker, "memory.events"))
    }

    /// Whether a process is in the directory of another life, so that it does not belong to this one.
    pub(crate) fn is_of_another(&self, pid: i32, worker: WorkerId) -> bool {
        let (own, worker) = (self.path.file_name(), self.leaves.name(worker));
        let listed = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap_or_default();
        listed.lines().filter_map(|line| line.strip_prefix("0::")).any(|path| {
            let mut names =
                path.split('/').skip_while(|name| Some(std::ffi::OsStr::new(name)) != own).skip(1);
            names.next().is_some_and(|life| life != worker && life.parse::<WorkerId>().is_ok())
        })
    }

    /// Some process that lives in a life's cgroup.
    pub(crate) fn someone(&self, worker: WorkerId) -> Option<i32> {
        inhabitants_below(&self.path.join(self.leaves.name(worker))).first().copied()
    }

    fn inhabitants(&self, worker: WorkerId) -> String {
        self.read(worker, "cgroup.procs")
    }

    fn read(&self, worker: WorkerId, file: &str) -> String {
        fs::read_to_string(self.path.join(self.leaves.name(worker)).join(file)).unwrap_or_default()
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        _ = tree::remove_at(&self.path);
    }
}

/// Reads `memory.events`. It counts a bound that is reached at the cgroup of the bound and above, a kill at the cgroup
/// of the victim and above.
fn oom_in(events: &str) -> (bool, bool) {
    let has = |name: &str| {
        events.lines().any(|line| line.strip_prefix(name).is_some_and(|count| count.trim() != "0"))
    };
    let killed = has("oom_kill ");
    (killed, killed && has("oom "))
}

/// The calling process goes into the cgroup.
pub(super) fn enter(dir: &OwnedFd) -> io::Result<()> {
    write_at(dir, "cgroup.procs", b"0")
}

fn write_at(dir: &OwnedFd, name: &str, text: &[u8]) -> io::Result<()> {
    // With O_NONBLOCK newer kernels make the processes over the bound free the memory, not us.
    let flags = OFlag::O_WRONLY | OFlag::O_CLOEXEC | OFlag::O_NONBLOCK;
    let file = openat(dir, name, flags, Mode::empty())?;
    fs::File::from(file).write_all(text)
}

/// The name of a keeper's directory, which no other keeper of this boot has.
pub(super) fn directory_name(keeper: i32) -> io::Result<String> {
    Ok(format!("{PREFIX}{keeper}-{}", start_of(keeper)?))
}

fn keeper_named(name: &str) -> Option<(i32, u64)> {
    let (pid, start) = name.strip_prefix(PREFIX)?.split_once('-')?;
    Some((pid.parse().ok()?, start.parse().ok()?))
}

fn lock(path: &Path) -> Option<Flock<OwnedFd>> {
    let flags = OFlag::O_DIRECTORY | OFlag::O_RDONLY | OFlag::O_CLOEXEC;
    let dir = nix::fcntl::open(path, flags, Mode::empty()).ok()?;
    Flock::lock(dir, FlockArg::LockExclusiveNonblock).ok()
}

/// Removes directories that dead keepers have left here, unless a process lives in them: their sweepers see to that.
fn remove_left_over(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let keeper = entry.file_name().to_str().and_then(keeper_named);
        // A keeper may have made its directory a moment ago and not have locked it yet.
        let is_dead = keeper.is_some_and(|(pid, start)| start_of(pid).ok() != Some(start));
        if is_dead && lock(&entry.path()).is_some() {
            _ = tree::remove_at(&entry.path());
        }
    }
}

/// Whether a keeper, or a child that it has just made, has locked its directory.
pub(super) fn is_locked(path: &Path) -> bool {
    path.is_dir() && lock(path).is_none()
}

/// Whether no process lives in a cgroup and below it. If so, removes it as far as possible.
pub(super) fn empty(path: &Path) -> bool {
    if is_inhabited(&fs::read_to_string(path.join("cgroup.events")).unwrap_or_default()) {
        return false;
    }
    _ = tree::remove_at(path);
    true
}

/// Reads `cgroup.events`, which counts processes in cgroups below too.
fn is_inhabited(events: &str) -> bool {
    events.lines().any(|line| line == "populated 1")
}

/// Reads `cgroup.events`: whether nobody lives there, and whoever comes next would run.
fn is_at_rest(events: &str) -> bool {
    events.lines().any(|line| line == "populated 0") && !events.lines().any(|line| line == "frozen 1")
}

/// The first few processes that live in a cgroup and below it.
pub(super) fn inhabitants_below(path: &Path) -> Vec<i32> {
    const FEW: usize = 16;
    let mut found = Vec::new();
    let Ok(path) = CString::new(path.as_os_str().as_encoded_bytes()) else { return found };
    _ = tree::walk(AT_FDCWD, &path, |_, _, dir| {
        let procs = openat(dir, "cgroup.procs", OFlag::O_RDONLY | OFlag::O_CLOEXEC, Mode::empty());
        let mut text = String::new();
        if procs.is_ok_and(|procs| fs::File::from(procs).read_to_string(&mut text).is_ok()) {
            found.extend(text.lines().flat_map(str::parse::<i32>).take(FEW - found.len()));
        }
        if found.len() < FEW { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    found
}

/// The cgroup that was given to the keeper and its supervisor, as a path that can be opened.
pub(super) fn given_directory() -> Option<PathBuf> {
    own_directory().map(controllers::given)
}

/// Where this process is in the hierarchy.
fn own_directory() -> Option<PathBuf> {
    let mut mounts = String::new();
    fs::File::open("/proc/self/mountinfo").ok()?.read_to_string(&mut mounts).ok()?;
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    directory_in(&mounts, &own)
}

fn directory_in(mounts: &str, own: &str) -> Option<PathBuf> {
    let own = Path::new(own.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let mut fields = mount.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        kind.starts_with("cgroup2 ").then_some(())?;
        Some(Path::new(point).join(own.strip_prefix(root).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cgroup_name_identifies_its_keeper() {
        let own = std::process::id() as i32;
        let name = directory_name(own).unwrap();
        assert_eq!(keeper_named(&name), Some((own, start_of(own).unwrap())));
        for other in ["taskvisor-12", "taskvisor-test-12", "taskvisor-12-x", "session-1-2"] {
            assert_eq!(keeper_named(other), None);
        }
    }

    #[test]
    fn oom_kill_at_the_own_bound_is_distinguished_from_one_outside() {
        let events = |oom: u8, kill: u8| {
            format!("low 0\nhigh 0\nmax 9\noom {oom}\noom_kill {kill}\noom_group_kill 0\n")
        };
        assert_eq!(oom_in(&events(0, 0)), (false, false));
        assert_eq!(oom_in(&events(1, 0)), (false, false), "nobody could be killed");
        assert_eq!(oom_in(&events(0, 1)), (true, false));
        assert_eq!(oom_in(&events(2, 3)), (true, true));
        assert_eq!(oom_in(""), (false, false));
    }

    fn check(mounts: &str, own: &str, expected: Option<&str>) {
        assert_eq!(directory_in(mounts, own), expected.map(PathBuf::from), "{mounts} {own}");
    }

    #[test]
    fn own_cgroup_is_found_below_its_mount() {
        let unified = "30 1 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw";
        let hybrid =
            "39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n41 31 0:38 / /u rw - cgroup2 c rw";
        check(unified, "0::/system.slice/a.service\n", Some("/sys/fs/cgroup/system.slice/a.service"));
        check(hybrid, "8:pids:/x\n0::/\n", Some("/u/"));
        check("30 1 0:26 /box /sys/fs/cgroup rw - cgroup2 c rw", "0::/box/a", Some("/sys/fs/cgroup/a"));
        check("30 1 0:26 /box /sys/fs/cgroup rw - cgroup2 c rw", "0::/other", None);
        check("39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids", "8:pids:/", None);
    }
}
