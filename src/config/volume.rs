//! Volumes of containers: directories that a runtime mounts, and that any user of the container may write.

use std::collections::BTreeSet;
use std::fs::{self, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

use super::{Error, Fault};

/// The beginning of the name of a private directory in a volume; the user's number follows.
const PREFIX: &str = "taskvisor-";

/// With it only the owner of an entry, the directory's owner and root may rename or remove that entry.
const STICKY: u32 = 0o1000;

/// The place for a directory that must be private, or the place in which to look for that of a supervisor. Root looks for
/// that of any user: `docker exec -u 0` makes a command root's in the container of another user.
pub(super) fn place_within_volume(dir: PathBuf, uid: u32, looks: bool) -> Result<PathBuf, Error> {
    let own = within_volume(dir.clone(), uid);
    match looks && uid == 0 && own != dir {
        true => the_only(&dir, own),
        false => Ok(own),
    }
}

/// Root's own private directory in a volume if it is there, else the only one of another user; root's own if there is none.
fn the_only(volume: &Path, own: PathBuf) -> Result<PathBuf, Error> {
    let owner = |path: &Path| path.file_name()?.to_str()?.strip_prefix(PREFIX)?.parse::<u32>().ok();
    // Every user may write in the volume: a link, or a directory of another owner than its name says, may be there to
    // mislead root.
    let is_private = |path: &PathBuf| {
        let found = fs::symlink_metadata(path).ok().filter(Metadata::is_dir);
        found.is_some_and(|found| owner(path) == Some(found.uid()))
    };
    if is_private(&own) {
        return Ok(own);
    }
    let entries = fs::read_dir(volume).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut found: Vec<PathBuf> = entries.filter(is_private).collect();
    found.sort();
    match found.as_slice() {
        [] => Ok(own),
        [only] => Ok(only.clone()),
        several => {
            let names: Vec<String> = several.iter().map(|path| path.display().to_string()).collect();
            let what =
                format!("the volume {} is that of several users: {}", volume.display(), names.join(", "));
            Err(Error::new(Fault::Usage, what).hint(
                "name the one that is meant (--state-dir, --run-dir, log.dir), or be its user: docker exec -u UID",
            ))
        }
    }
}

/// The place for a directory that must be private. A volume of root that this user may write, as an emptyDir of
/// Kubernetes (mode 0777, or 2777 with `fsGroup`), cannot be made private; a directory in it can.
fn within_volume(dir: PathBuf, uid: u32) -> PathBuf {
    let shared = fs::metadata(&dir).is_ok_and(|found| {
        let of_root = found.uid() == 0 || is_unmapped(found.uid());
        of_root && (found.uid() != uid || found.mode() & 0o022 != 0)
    });
    let may_write = || eaccess(&dir, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    match shared && may_write() && is_mounted(&dir) {
        true => dir.join(format!("{PREFIX}{uid}")),
        false => dir,
    }
}

/// Whether nobody but the processes of this container comes to this directory, whatever its mode: it was mounted for it.
pub(super) fn is_containers_own(dir: &Path) -> bool {
    in_container() && is_mounted(dir)
}

/// Sets the sticky bit of the volumes above a directory that everybody may write, where this user may do that: a job of
/// another user could take the directory away, and put a link in its place. Pools with other users need it
/// ([`super::keep_users_out`]); the others have nobody here to fear.
pub(super) fn close_volumes(dir: &Path) {
    let open = loose(dir, is_containers_own).into_iter().filter(|(_, found)| found.mode() & 0o002 != 0);
    open.for_each(|(volume, found)| drop(set_sticky(&volume, &found)));
}

/// Volumes on the way to a directory in which others than their owners may rename what is there.
pub(super) fn loose(dir: &Path, is_own: impl Fn(&Path) -> bool) -> Vec<(PathBuf, Metadata)> {
    let real = |path: &Path| fs::canonicalize(path).ok();
    let mut ways: BTreeSet<PathBuf> = BTreeSet::new();
    // A part of the path may be a link, and each target has parents of its own.
    let parents = dir.ancestors().skip(1).filter_map(real);
    for parent in parents.chain(real(dir).and_then(|dir| dir.parent().map(Path::to_owned))) {
        ways.extend(parent.ancestors().map(Path::to_owned));
    }
    let found = ways.into_iter().filter_map(|way| fs::metadata(&way).ok().map(|found| (way, found)));
    found
        .filter(|(way, found)| found.mode() & STICKY == 0 && found.mode() & 0o022 != 0 && is_own(way))
        .collect()
}

pub(super) fn set_sticky(volume: &Path, found: &Metadata) -> io::Result<()> {
    fs::set_permissions(volume, Permissions::from_mode(found.mode() & 0o7777 | STICKY))?;
    match fs::metadata(volume)?.mode() & STICKY {
        0 => Err(io::Error::other("its file system does not keep that bit")),
        _ => Ok(()),
    }
}

/// In a user namespace all owners without a number there have this one, including root of the machine.
pub(super) fn is_unmapped(owner: u32) -> bool {
    const OVERFLOW: u32 = 65534;
    // Outside of user namespaces one line maps every number to itself.
    let all = |line: &str| line.split_whitespace().eq(["0", "0", "4294967295"]);
    owner == OVERFLOW && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| !all(map.trim()))
}

/// Whether this process sees the processes of a container, not those of the machine with all its users.
fn in_container() -> bool {
    // The number that Linux gives the first namespace of pids (PROC_PID_INIT_INO).
    const OF_THE_MACHINE: &str = "pid:[4026531836]";
    fs::read_link("/proc/self/ns/pid").is_ok_and(|own| own != Path::new(OF_THE_MACHINE))
}

fn is_mounted(dir: &Path) -> bool {
    let table = || fs::read_to_string("/proc/self/mountinfo");
    let found = || -> io::Result<bool> { Ok(names(&table()?, &fs::canonicalize(dir)?)) };
    found().unwrap_or(false)
}

/// Whether a table of mounts names this directory; blanks and the like are written as octal numbers there.
fn names(table: &str, dir: &Path) -> bool {
    let mut written = String::new();
    for char in dir.to_string_lossy().chars() {
        match char {
            ' ' => written.push_str("\\040"),
            '\t' => written.push_str("\\011"),
            '\n' => written.push_str("\\012"),
            '\\' => written.push_str("\\134"),
            other => written.push(other),
        }
    }
    // The fifth field is the mount point (proc_pid_mountinfo(5)).
    table.lines().any(|line| line.split(' ').nth(4) == Some(&written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::geteuid;

    #[test]
    fn a_mount_is_known_by_its_whole_path() {
        let table = "36 35 98:0 / /data\\040of/jobs rw,noatime - ext4 /dev/root rw\n37 36 0:5 / /tmp rw - tmpfs none rw\n";
        for (dir, is) in [("/data of/jobs", true), ("/tmp", true), ("/data of", false), ("/tmp/a", false)] {
            assert_eq!(names(table, Path::new(dir)), is, "{dir}");
        }
    }

    #[test]
    fn a_directory_that_nobody_mounted_stays_as_it_is() {
        use std::os::unix::fs::PermissionsExt;
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(within_volume(dir.path().into(), 12345), dir.path());
        assert!(!is_containers_own(dir.path()));
    }

    #[test]
    fn root_finds_the_only_private_directory_in_a_volume() {
        let dir = tempfile::tempdir().unwrap();
        let (volume, own) = (dir.path(), geteuid().as_raw());
        let found = || the_only(volume, "/own".into());
        assert_eq!(found(), Ok("/own".into()));
        // Neither of these is one: of another user than its name says, a link, a file, without a number.
        let mine = volume.join(format!("taskvisor-{own}"));
        fs::create_dir(volume.join(format!("taskvisor-{}", own + 1))).unwrap();
        fs::create_dir(volume.join("taskvisor-x")).unwrap();
        std::os::unix::fs::symlink("/", &mine).unwrap();
        assert_eq!(found(), Ok("/own".into()));
        fs::remove_file(&mine).unwrap();
        fs::create_dir(&mine).unwrap();
        assert_eq!(found(), Ok(mine.clone()));
        if geteuid().is_root() {
            std::os::unix::fs::chown(volume.join("taskvisor-1"), Some(1), None).unwrap();
            let error = found().unwrap_err().message;
            assert!(error.contains("taskvisor-0, ") && error.contains("taskvisor-1"), "{error}");
            assert_eq!(the_only(volume, mine.clone()), Ok(mine), "nobody can hide root's own from root");
        }
    }
}
