//! Volumes of containers: directories that a runtime mounts, and that any user of the container may write.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, eaccess};

/// The place for a directory that must be private. A volume of root that this user may write, as an emptyDir of
/// Kubernetes (mode 0777, or 2777 with `fsGroup`), cannot be made private; a directory in it can.
pub(super) fn within_volume(dir: PathBuf, uid: u32) -> PathBuf {
    let shared = fs::metadata(&dir).is_ok_and(|found| {
        let of_root = found.uid() == 0 || is_unmapped(found.uid());
        of_root && (found.uid() != uid || found.mode() & 0o022 != 0)
    });
    let may_write = || eaccess(&dir, AccessFlags::W_OK | AccessFlags::X_OK).is_ok();
    match shared && may_write() && is_mounted(&dir) {
        true => dir.join(format!("taskvisor-{uid}")),
        false => dir,
    }
}

/// Whether nobody but the processes of this container comes to this directory, whatever its mode: it was mounted for it.
pub(super) fn is_containers_own(dir: &Path) -> bool {
    in_container() && is_mounted(dir)
}

/// In a user namespace all owners without a number there have this one, including root of the machine.
pub(super) fn is_unmapped(owner: u32) -> bool {
    const OVERFLOW: u32 = 65534;
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
    table.lines().any(|line| line.split(' ').nth(4) == Some(&written))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
