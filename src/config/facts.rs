//! Facts about the machine for `check`. This code only collects them.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::statfs::{FsType, PROC_SUPER_MAGIC, TMPFS_MAGIC, statfs};
use nix::unistd::{AccessFlags, eaccess};

use super::keep_out::could_keep_users_out;
use super::paths::{must_be_private, must_be_two, unmade};
use super::program::find;
use super::{Config, Error};
use model::{Identity, SpawnSpec};

/// The facts found.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// The user that would run the supervisor.
    pub uid: u32,
    /// Number of processors.
    pub cpus: u64,
    /// Memory in bytes; None = not known.
    pub memory: Option<u64>,
    /// Limit of the processes of this user or cgroup.
    pub processes: Option<u64>,
    /// Limit of the descriptors of a process.
    pub descriptors: Option<u64>,
    /// Limit of the CPU time of a process, in seconds.
    pub cpu_time: Option<u64>,
    /// The kind of disk for the state.
    pub state: Disk,
    /// Size of that disk, in bytes.
    pub capacity: Option<u64>,
    /// The file of the settings.
    pub file: Option<Rights>,
    /// The facts of each pool.
    pub pools: Vec<PoolFacts>,
}

/// The facts of a pool.
#[derive(Clone, Debug, Default)]
pub struct PoolFacts {
    /// The program that it runs.
    pub program: Option<Rights>,
    /// The first part of the path to the program that its user may not pass or run.
    pub program_closed: Option<PathBuf>,
    /// The first part of the path to its working directory that its user may not enter.
    pub cwd_closed: Option<PathBuf>,
}

/// The kind of disk of a directory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Disk {
    /// A disk that keeps its data.
    #[default]
    Local,
    /// Memory: lost with the power.
    Memory,
}

/// The rights on a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rights {
    /// Its absolute path.
    pub path: PathBuf,
    /// The user that owns it.
    pub owner: u32,
    /// Whether everybody on the machine may write it, or replace it.
    pub writable: bool,
    /// Whether everybody on the machine may read it.
    pub readable: bool,
}

impl Facts {
    /// Collects the facts; fails where `start` would.
    pub fn gather(config: &Config, file: Option<&Path>) -> Result<Facts, Error> {
        must_be_two(&config.run_dir, &config.state_dir)?;
        could_keep_users_out(config)?;
        can_be_private(&config.run_dir)?;
        can_be_private(&config.state_dir)?;
        if let Some(dir) = &config.log.dir {
            can_be_private(dir)?;
        }
        Ok(Facts {
            uid: nix::unistd::geteuid().as_raw(),
            cpus: std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u64),
            memory: memory(),
            processes: least([limit(Resource::RLIMIT_NPROC), pid_max(), of_own_cgroup("pids.max")]),
            descriptors: limit(Resource::RLIMIT_NOFILE),
            cpu_time: limit(Resource::RLIMIT_CPU),
            state: disk(&config.state_dir),
            capacity: capacity(&config.state_dir),
            file: file.and_then(rights),
            pools: config.specs.iter().map(of_pool).collect(),
        })
    }
}

/// Checks that `start` could make the directory, or that it is as it must be.
fn can_be_private(dir: &Path) -> Result<(), Error> {
    if dir.is_dir() {
        return must_be_private(dir);
    }
    let parent = nearest(dir);
    let may = match parent.is_dir() {
        false if parent == dir => Err(Errno::EEXIST),
        false => Err(Errno::ENOTDIR),
        true => eaccess(parent, AccessFlags::W_OK | AccessFlags::X_OK),
    };
    // By its mode root may write in /proc, but nothing can be made there.
    let may = if may.is_ok() && is_proc(parent) { Err(Errno::ENOENT) } else { may };
    may.map_err(|errno| unmade(dir, &errno.into()))
}

fn is_proc(dir: &Path) -> bool {
    statfs(dir).is_ok_and(|found| found.filesystem_type() == PROC_SUPER_MAGIC)
}

/// The existing part of a path.
fn nearest(path: &Path) -> &Path {
    path.ancestors().find(|part| part.exists()).unwrap_or(Path::new("/"))
}

fn disk(dir: &Path) -> Disk {
    const RAMFS: i64 = 0x8584_58f6;
    match statfs(nearest(dir)).map(|found| found.filesystem_type()) {
        Ok(TMPFS_MAGIC | FsType(RAMFS)) => Disk::Memory,
        Ok(_) | Err(_) => Disk::Local,
    }
}

fn capacity(dir: &Path) -> Option<u64> {
    let found = statfs(nearest(dir)).ok()?;
    found.blocks().checked_mul(u64::try_from(found.block_size()).ok()?)
}

fn rights(path: &Path) -> Option<Rights> {
    let path = fs::canonicalize(path).ok()?;
    let found = fs::metadata(&path).ok()?;
    let dir = path.parent().and_then(|dir| fs::metadata(dir).ok());
    let all_may = |of: &Metadata, bit: u32| of.mode() & bit != 0;
    // In a sticky directory only the owner may replace this file.
    let replaceable = dir.is_some_and(|dir| all_may(&dir, 0o002) && !all_may(&dir, 0o1000));
    Some(Rights {
        owner: found.uid(),
        writable: all_may(&found, 0o002) || replaceable,
        readable: all_may(&found, 0o004),
        path,
    })
}

fn of_pool(spec: &SpawnSpec) -> PoolFacts {
    let program = find(spec);
    let closed = |path: &Path| spec.identity.as_ref().and_then(|who| closed_to(who, path));
    PoolFacts {
        program_closed: program.as_deref().and_then(closed),
        cwd_closed: spec.cwd.as_deref().and_then(closed),
        program: program.as_deref().and_then(rights),
    }
}

/// The first part of the path that this user may not pass or run, by its mode.
fn closed_to(who: &Identity, path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    // To try it as that user takes root; the modes tell it to everybody who runs `check`.
    let parts: Vec<&Path> = path.ancestors().collect();
    let open = |part: &Path| fs::metadata(part).is_ok_and(|found| may_pass(who, &found));
    // From the root down: the first that is closed is the one to open.
    parts.into_iter().rev().find(|part| !open(part)).map(Path::to_path_buf)
}

fn may_pass(who: &Identity, found: &Metadata) -> bool {
    let own_group = found.gid() == who.gid || who.groups.contains(&found.gid());
    // The kernel asks the first of these that fits: an owner without the right is refused, whatever others may.
    let bit = match found.uid() == who.uid {
        true => 0o100,
        false if own_group => 0o010,
        false => 0o001,
    };
    who.uid == 0 || found.mode() & bit != 0
}

fn least<const N: usize>(limits: [Option<u64>; N]) -> Option<u64> {
    limits.into_iter().flatten().min()
}

fn limit(resource: Resource) -> Option<u64> {
    in_force(resource, getrlimit(resource).ok()?, nix::unistd::geteuid().is_root())
}

/// The limit that a supervisor here will have; None = no limit.
fn in_force(resource: Resource, (soft, hard): (u64, u64), is_root: bool) -> Option<u64> {
    // This limit does not apply to root.
    if resource == Resource::RLIMIT_NPROC && is_root {
        return None;
    }
    // Supervisor and keeper raise their limit of descriptors to the hard one, and no other.
    let limit = if resource == Resource::RLIMIT_NOFILE { hard } else { soft };
    (limit != RLIM_INFINITY).then_some(limit)
}

fn pid_max() -> Option<u64> {
    fs::read_to_string("/proc/sys/kernel/pid_max").ok()?.trim().parse().ok()
}

/// The memory of this machine, or of this process's cgroup or one above it if that has less, in bytes.
pub fn memory() -> Option<u64> {
    // In a container of cgroup v1 this is the container's own; elsewhere the whole machine's, which has no limit.
    let v1 = fs::read_to_string("/sys/fs/cgroup/memory/memory.limit_in_bytes").ok();
    let v1 = v1.and_then(|text| text.trim().parse().ok());
    least([memory_of_the_machine(), of_own_cgroup("memory.max"), v1])
}

fn memory_of_the_machine() -> Option<u64> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

/// A limit of this process's cgroup (v2), or of one above it.
fn of_own_cgroup(file: &str) -> Option<u64> {
    let own = fs::read_to_string("/proc/self/cgroup").ok()?;
    // The line of cgroup v2 begins with 0, and those of v1 with another number.
    let own = own.lines().find_map(|line| line.strip_prefix("0::/"))?.to_owned();
    let place = Path::new("/sys/fs/cgroup").join(own);
    let limits = place.ancestors().take_while(|dir| dir.starts_with("/sys/fs/cgroup"));
    // `max` is no number, and so no limit.
    limits.filter_map(|dir| fs::read_to_string(dir.join(file)).ok()?.trim().parse().ok()).min()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn who_may_write_a_file_follows_from_its_mode_and_directory() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        fs::write(&file, "").unwrap();
        let rights = |file_mode, dir_mode| {
            set_mode(&file, file_mode);
            set_mode(dir.path(), dir_mode);
            let found = rights(&file).unwrap();
            (found.writable, found.readable)
        };
        assert_eq!(rights(0o600, 0o755), (false, false));
        assert_eq!(rights(0o644, 0o755), (false, true));
        assert_eq!(rights(0o666, 0o755), (true, true));
        assert_eq!(rights(0o600, 0o777), (true, false));
        assert_eq!(rights(0o600, 0o1777), (false, false));
    }

    #[test]
    fn limit_in_force_is_the_one_that_a_supervisor_will_have() {
        let both = (100, 4_000);
        assert_eq!(in_force(Resource::RLIMIT_NOFILE, both, false), Some(4_000), "it raises this one");
        assert_eq!(in_force(Resource::RLIMIT_NPROC, both, false), Some(100));
        assert_eq!(in_force(Resource::RLIMIT_NPROC, both, true), None, "root has none");
        assert_eq!(in_force(Resource::RLIMIT_NPROC, (RLIM_INFINITY, RLIM_INFINITY), false), None);
    }

    #[test]
    fn first_directory_that_a_user_cannot_enter_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let (door, file) = (dir.path().join("door"), dir.path().join("door/program"));
        fs::create_dir(&door).unwrap();
        fs::write(&file, "").unwrap();
        set_mode(dir.path(), 0o755);
        let stranger = Identity { uid: 4242, gid: 4242, groups: vec![], name: "x".into(), home: "/".into() };
        let way = |door_mode, file_mode| {
            set_mode(&door, door_mode);
            set_mode(&file, file_mode);
            closed_to(&stranger, &file).map(|path| path.file_name().unwrap().to_owned())
        };
        assert_eq!(way(0o755, 0o755), None);
        assert_eq!(way(0o755, 0o754), Some("program".into()));
        assert_eq!(way(0o750, 0o755), Some("door".into()));
    }

    #[test]
    fn missing_directory_is_checked_at_its_parent() {
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a/b");
        can_be_private(&run).unwrap();
        assert!(!run.exists());
        fs::create_dir_all(&run).unwrap();
        set_mode(&run, 0o777);
        assert!(can_be_private(&run).unwrap_err().to_string().contains("can be written by others"));
    }
}
