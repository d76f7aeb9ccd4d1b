//! The directories and files of a supervisor.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::fs::{self, DirBuilder};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use super::volume::{close_volumes, is_containers_own, is_unmapped};
use super::{Error, Fault};
use model::{JobId, SpawnSpec};
use start_dir::from_start_dir;

/// The effective capabilities of this process, as a set of bits.
fn capabilities() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let set = status.lines().find_map(|line| line.strip_prefix("CapEff:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}

/// The environment on which the default directories depend.
#[derive(Clone, Default)]
pub struct Surroundings {
    /// The effective user.
    pub uid: u32,
    /// The effective group.
    pub gid: u32,
    /// The capabilities that it does not have, as a set of bits; root may lack some too.
    pub lacks: u64,
    /// Value of `$HOME`.
    pub home: Option<OsString>,
    /// Value of `$XDG_STATE_HOME`.
    pub xdg_state_home: Option<OsString>,
    /// Value of `$XDG_RUNTIME_DIR`.
    pub xdg_runtime_dir: Option<OsString>,
    /// Value of `$TASKVISOR_SOCKET`: in a job, the socket of its supervisor.
    pub socket: Option<OsString>,
    /// Value of `$TASKVISOR_API_TOKEN`.
    pub api_token: Option<OsString>,
}

impl Surroundings {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Surroundings {
            uid: nix::unistd::geteuid().as_raw(),
            gid: nix::unistd::getegid().as_raw(),
            // Where /proc is closed the kernel says what is lacking, when it refuses.
            lacks: !capabilities().unwrap_or(u64::MAX),
            home: std::env::var_os("HOME"),
            xdg_state_home: std::env::var_os("XDG_STATE_HOME"),
            xdg_runtime_dir: std::env::var_os("XDG_RUNTIME_DIR"),
            socket: std::env::var_os(SpawnSpec::SOCKET),
            api_token: std::env::var_os(SpawnSpec::API_TOKEN),
        }
    }

    /// Whether this process has not the capability of this number.
    pub(super) fn lacks(&self, capability: u32) -> bool {
        self.lacks >> capability & 1 == 1
    }

    /// The default directory for data that must last.
    pub(super) fn state_dir(&self) -> Result<PathBuf, Error> {
        if self.uid == 0 {
            return Ok("/var/lib/taskvisor".into());
        }
        let home = || absolute(&self.home).map(|home| home.join(".local/state"));
        absolute(&self.xdg_state_home).or_else(home).map(|dir| dir.join("taskvisor")).ok_or_else(|| {
            Error::new(Fault::Config, "no place for the state: neither XDG_STATE_HOME nor HOME is set")
                .hint("give --state-dir DIR or set TASKVISOR_STATE_DIR")
        })
    }

    /// The run directory of the supervisor whose job this process belongs to, if it does to one.
    pub(super) fn run_dir_of_job(&self) -> Option<PathBuf> {
        let path = absolute(&self.socket)?;
        // The variable may have been set by hand: only the name that a supervisor gives its socket shows a run
        // directory.
        path.parent().filter(|dir| socket(dir) == path).map(Path::to_owned)
    }

    /// The default directory for the socket.
    pub fn run_dir(&self) -> PathBuf {
        if self.uid == 0 {
            return "/run/taskvisor".into();
        }
        match absolute(&self.xdg_runtime_dir) {
            Some(dir) => dir.join("taskvisor"),
            None => format!("/tmp/taskvisor-{}", self.uid).into(),
        }
    }
}

/// The specification of the XDG variables says to ignore a relative path.
fn absolute(path: &Option<OsString>) -> Option<PathBuf> {
    path.as_ref().map(PathBuf::from).filter(|path| path.is_absolute())
}

/// Makes a relative path absolute, from the directory in which the command was typed.
pub(super) fn from_here(path: PathBuf) -> Result<PathBuf, Error> {
    from_start_dir(&path).map_err(|error| {
        Error::new(Fault::Config, format!("the path '{}' cannot be used: {error}", path.display()))
    })
}

/// The socket of the supervisor with this run directory.
pub fn socket(run_dir: &Path) -> PathBuf {
    run_dir.join("ctl.sock")
}

/// The file for a job's output: its plain bytes, both streams in order of arrival.
///
/// ```
/// use taskvisor_config::log_file;
/// let path = |id: &str| log_file("/s".as_ref(), &id.into()).display().to_string();
/// assert_eq!(path("0199ab"), "/s/logs/ab/0199ab.log");
/// assert_eq!(path("../x"), "/s/logs/Fx/%2E%2E%2Fx.log");
/// ```
pub fn log_file(state_dir: &Path, id: &JobId) -> PathBuf {
    let mut name = String::new();
    for byte in id.as_str().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => name.push(byte as char),
            other => {
                let _ = write!(name, "%{other:02X}");
            }
        }
    }
    if name.len() > LONGEST_NAME {
        // FNV-1a: the hash of the standard library may change, and the next version must find the file.
        let hash =
            name.bytes().fold(FNV_START, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(FNV_PRIME));
        // Long ids often begin alike. The hyphen and 16 digits of the hash keep their names apart.
        name.truncate(LONGEST_NAME - 17);
        let _ = write!(name, "-{hash:016x}");
    }
    // Ids begin with the time at which they were made, so their ends divide them better.
    let group = &name[name.len().saturating_sub(2)..];
    logs(state_dir).join(group).join(format!("{name}.log"))
}

/// The directory with the output of all jobs.
pub fn logs(state_dir: &Path) -> PathBuf {
    state_dir.join("logs")
}

/// Longest file name: file systems end at 255; `.log` and a suffix for temporary names are added.
const LONGEST_NAME: usize = 200;
const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;
const FNV_PRIME: u64 = 0x0100_0000_01b3;

/// Makes a directory that only we may enter, or checks that it is one.
pub fn private_dir(dir: &Path) -> Result<(), Error> {
    // Before the check, which refuses a way through directories that others may write.
    close_volumes(dir);
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(|error| unmade(dir, &error))?;
    must_be_private(dir)
}

/// Checks that the run directory and the state directory are two: each has a lock of its own, of one name.
pub fn must_be_two(run_dir: &Path, state_dir: &Path) -> Result<(), Error> {
    let real = |dir: &Path| fs::canonicalize(dir).unwrap_or_else(|_| dir.to_owned());
    if real(run_dir) != real(state_dir) {
        return Ok(());
    }
    let why = format!("run_dir and state_dir are the same directory, {}", state_dir.display());
    Err(Error::new(Fault::Config, why).hint("give each one of its own: --run-dir DIR, --state-dir DIR"))
}

/// The error for a directory that cannot be made.
pub(super) fn unmade(dir: &Path, error: &std::io::Error) -> Error {
    let forbidden = matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    let fault = if forbidden { Fault::Permission } else { Fault::Io };
    Error::new(fault, format!("failed to make the directory {}: {error}", dir.display()))
}

/// Checks that an existing directory belongs to us and is closed to others.
pub(super) fn must_be_private(dir: &Path) -> Result<(), Error> {
    let failed = |error: std::io::Error| {
        Error::new(Fault::Io, format!("failed to look at the directory {}: {error}", dir.display()))
    };
    let uid = nix::unistd::geteuid().as_raw();
    let refused = |why: String| Err(Error::new(Fault::Permission, format!("{} {why}", dir.display())));
    // A symbolic link may lead to another disk, if the link and its target are ours.
    let link = fs::symlink_metadata(dir).map_err(failed)?;
    let found = fs::metadata(dir).map_err(failed)?;
    if let Some(other) = [link.uid(), found.uid()].into_iter().find(|owner| *owner != uid) {
        return refused(format!("belongs to uid {other}, not to uid {uid}"))
            .map_err(|no| no.hint(as_whom(other)));
    }
    if found.mode() & 0o022 != 0 {
        return refused(format!("can be written by others (mode {:o})", found.mode() & 0o7777));
    }
    // Where a part of the path is a link, both ways count: whoever can replace an entry on either can put another
    // directory there.
    let real = fs::canonicalize(dir).map_err(failed)?;
    dir.ancestors().chain(real.ancestors()).skip(1).try_for_each(|parent| keeps_its_entries(parent, dir, uid))
}

/// How to act as the owner of a directory.
fn as_whom(owner: u32) -> String {
    let user = nix::unistd::User::from_uid(owner.into()).ok().flatten();
    let name = user.map_or_else(|| format!("'#{owner}'"), |user| user.name);
    format!("sudo -u {name} taskvisor … acts as its owner; root reaches that user's supervisor while it runs")
}

/// Checks that only this user and root can replace entries of this directory: it belongs to one of them, and is not
/// writable by everybody, unless it is sticky or the volume of a container. Those are closed before ([`close_volumes`]);
/// where that fails, no pool may have a user of its own (`keep_users_out`).
fn keeps_its_entries(parent: &Path, dir: &Path, uid: u32) -> Result<(), Error> {
    let Ok(found) = fs::metadata(parent) else { return Ok(()) };
    let refused = |why: String| {
        let message = format!("{} cannot be kept: {} above it {why}", dir.display(), parent.display());
        let hint =
            "whoever can replace a directory on the way to it can take its place: choose another place";
        Err(Error::new(Fault::Permission, message).hint(hint))
    };
    let link = fs::symlink_metadata(parent).map_or(uid, |link| link.uid());
    let stranger = |owner: &u32| ![0, uid].contains(owner) && !is_unmapped(*owner);
    if let Some(other) = [link, found.uid()].into_iter().find(stranger) {
        return refused(format!("belongs to uid {other}"));
    }
    if found.mode() & 0o1002 == 0o002 && !is_containers_own(parent) {
        return refused(format!("can be written by everybody (mode {:o})", found.mode() & 0o7777));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_ids_get_short_names_of_their_own() {
        let name = |c: &str| log_file(Path::new("/s"), &c.repeat(300).as_str().into());
        let (a, b) = (name("a"), name("é"));
        assert!(a.file_name().unwrap().len() <= 204 && b.file_name().unwrap().len() <= 204);
        assert_ne!(name("ab"), name("abab"));
    }

    #[test]
    fn defaults_follow_the_user_and_xdg() {
        let root = Surroundings::default();
        assert_eq!(root.state_dir().unwrap(), Path::new("/var/lib/taskvisor"));
        assert_eq!(root.run_dir(), Path::new("/run/taskvisor"));
        let mut user = Surroundings { uid: 7, ..Surroundings::default() };
        assert!(user.state_dir().is_err());
        assert_eq!(user.run_dir(), Path::new("/tmp/taskvisor-7"));
        user.home = Some("/home/u".into());
        user.xdg_runtime_dir = Some("relative".into());
        assert_eq!(user.state_dir().unwrap(), Path::new("/home/u/.local/state/taskvisor"));
        assert_eq!(user.run_dir(), Path::new("/tmp/taskvisor-7"));
        user.xdg_state_home = Some("/x".into());
        user.xdg_runtime_dir = Some("/run/user/7".into());
        assert_eq!(user.state_dir().unwrap(), Path::new("/x/taskvisor"));
        assert_eq!(user.run_dir(), Path::new("/run/user/7/taskvisor"));
    }

    #[test]
    fn a_directory_others_may_write_is_refused() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        let run = dir.path().join("a/b");
        private_dir(&run).unwrap();
        assert_eq!(fs::metadata(&run).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(private_dir(&run).unwrap_err().fault, Fault::Permission);
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&run, &link).unwrap();
        assert_eq!(private_dir(&link).unwrap_err().fault, Fault::Permission);
    }

    #[test]
    fn a_directory_that_others_can_replace_is_refused() {
        use std::os::unix::fs::{PermissionsExt, chown};
        let dir = tempfile::tempdir().unwrap();
        let (above, run) = (dir.path().join("a"), dir.path().join("a/b/run"));
        let mode = |mode| fs::set_permissions(&above, fs::Permissions::from_mode(mode)).unwrap();
        private_dir(&run).unwrap();
        mode(0o777);
        let error = private_dir(&run).unwrap_err();
        assert!(error.fault == Fault::Permission && error.to_string().contains("above it"), "{error}");
        mode(0o1777);
        private_dir(&run).unwrap();
        mode(0o755);
        if nix::unistd::geteuid().is_root() {
            chown(&above, Some(4242), None).unwrap();
            let error = private_dir(&run).unwrap_err();
            assert!(error.to_string().contains("belongs to uid 4242"), "{error}");
        }
    }
}
