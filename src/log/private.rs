//! Files that only the supervisor's user may read.

use std::fs::{OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;

/// Writes a whole file with mode 0600, whatever the umask and the mode of an earlier file. Does not write through a
/// symbolic link of that name.
pub fn write_private(path: &Path, bytes: impl AsRef<[u8]>) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(nix::libc::O_NOFOLLOW);
    let mut file = options.open(path)?;
    // The mode above is only for a new file.
    file.set_permissions(Permissions::from_mode(0o600))?;
    file.write_all(bytes.as_ref())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn write_private_makes_a_private_file_and_follows_no_link() {
        let dir = tempfile::tempdir().unwrap();
        let (file, link) = (dir.path().join("file"), dir.path().join("link"));
        fs::write(&file, "old and longer").unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
        write_private(&file, "new").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        symlink(&file, &link).unwrap();
        assert!(write_private(&link, "other").is_err());
    }
}
