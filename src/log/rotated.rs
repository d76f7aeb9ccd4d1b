//! A file that is replaced by a new one when it is large, or when it was moved or removed.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use model::Rotate;

/// A file to append to; `NAME.1` is the one before it, and so on.
pub(super) struct Rotated {
    path: PathBuf,
    rotate: Rotate,
    open: Option<Open>,
}

struct Open {
    file: File,
    len: u64,
    /// Device and inode, to check whether the name still leads to this file.
    identity: (u64, u64),
}

impl Rotated {
    /// Opens nothing before the first write.
    pub(crate) fn new(path: PathBuf, rotate: Rotate) -> Rotated {
        Rotated { path, rotate, open: None }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file that has the name now, or makes it.
    pub(crate) fn reopen(&mut self) -> io::Result<()> {
        self.open = None;
        self.current().map(drop)
    }

    /// Writes, and removes the written part from `bytes`. If an old file cannot be moved away, that is an error, but
    /// the file is written to nevertheless.
    pub(crate) fn write(&mut self, bytes: &mut &[u8]) -> io::Result<()> {
        let rotated = self.rotate_for(bytes.len() as u64);
        let open = self.current()?;
        let before = bytes.len();
        let result = write(&mut open.file, bytes);
        open.len += (before - bytes.len()) as u64;
        result.and(rotated)
    }

    /// The file of this name, which may be another one by now: logrotate may have moved it, or it was removed.
    fn current(&mut self) -> io::Result<&mut Open> {
        let there = fs::metadata(&self.path).map(|found| (found.dev(), found.ino())).ok();
        let known = self.open.take().filter(|open| Some(open.identity) == there);
        let open = match known {
            Some(open) => open,
            None => Open::at(&self.path)?,
        };
        Ok(self.open.insert(open))
    }

    fn rotate_for(&mut self, more: u64) -> io::Result<()> {
        // `write` meets the same error, and gives it.
        let Ok(open) = self.current() else { return Ok(()) };
        // An empty file takes any line, even one above the limit.
        if open.len == 0 || open.len + more <= self.rotate.size {
            return Ok(());
        }
        self.open = None;
        self.move_away()
    }

    /// Makes the file the first of the older ones; removes the last of them.
    fn move_away(&self) -> io::Result<()> {
        if self.rotate.keep == 0 {
            return fs::remove_file(&self.path);
        }
        for number in (1..self.rotate.keep).rev() {
            match fs::rename(self.older(number), self.older(number + 1)) {
                // There may be fewer old files than are kept.
                Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
                Ok(()) | Err(_) => {}
            }
        }
        fs::rename(&self.path, self.older(1))
    }

    fn older(&self, number: u32) -> PathBuf {
        let mut name = OsString::from(&self.path);
        name.push(format!(".{number}"));
        name.into()
    }
}

/// Writes, and removes the written part from `bytes`.
pub(super) fn write(file: &mut impl Write, bytes: &mut &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match file.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(len) => *bytes = &bytes[len..],
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Open {
    fn at(path: &Path) -> io::Result<Open> {
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(path)?;
        let found = file.metadata()?;
        Ok(Open { file, len: found.len(), identity: (found.dev(), found.ino()) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Stage {
        dir: tempfile::TempDir,
        file: Rotated,
    }

    impl Stage {
        fn new(size: u64, keep: u32) -> Stage {
            let dir = tempfile::tempdir().unwrap();
            let file = Rotated::new(dir.path().join("a.log"), Rotate { size, keep });
            Stage { dir, file }
        }

        fn write(&mut self, text: &str) -> io::Result<()> {
            let mut bytes = text.as_bytes();
            let result = self.file.write(&mut bytes);
            assert!(result.is_err() || bytes.is_empty());
            result
        }

        /// All files with their text, by name.
        fn found(&self) -> Vec<String> {
            let files = fs::read_dir(self.dir.path()).unwrap().flatten();
            let mut found: Vec<String> = files
                .map(|file| {
                    let text = fs::read_to_string(file.path()).unwrap_or_else(|_| "?".into());
                    format!("{} {}", file.file_name().display(), text.trim_end())
                })
                .collect();
            found.sort();
            found
        }
    }

    #[test]
    fn large_file_is_rotated_and_the_oldest_is_removed() {
        let mut stage = Stage::new(4, 2);
        for text in ["a\n", "b\n", "c\n", "d\n", "e\n", "f\n", "larger than all\n", "g\n"] {
            stage.write(text).unwrap();
        }
        assert_eq!(stage.found(), ["a.log g", "a.log.1 larger than all", "a.log.2 e\nf"]);
        let mut none = Stage::new(4, 0);
        for text in ["a\n", "b\n", "c\n"] {
            none.write(text).unwrap();
        }
        assert_eq!(none.found(), ["a.log c"]);
    }

    #[test]
    fn existing_file_counts_with_its_size() {
        let mut stage = Stage::new(4, 1);
        fs::write(&stage.file.path, "old\n").unwrap();
        stage.write("a\n").unwrap();
        assert_eq!(stage.found(), ["a.log a", "a.log.1 old"]);
    }

    #[test]
    fn a_file_that_was_moved_or_removed_is_made_again_at_the_next_write() {
        let mut stage = Stage::new(100, 1);
        stage.write("a\n").unwrap();
        fs::rename(&stage.file.path, stage.dir.path().join("moved")).unwrap();
        stage.write("b\n").unwrap();
        assert_eq!(stage.found(), ["a.log b", "moved a"]);
        fs::remove_file(&stage.file.path).unwrap();
        stage.write("c\n").unwrap();
        assert_eq!(stage.found(), ["a.log c", "moved a"]);
    }

    #[test]
    fn directory_in_place_of_the_log_is_an_error_until_removed() {
        let mut stage = Stage::new(100, 1);
        fs::create_dir(&stage.file.path).unwrap();
        assert_eq!(stage.write("a\n").unwrap_err().kind(), ErrorKind::IsADirectory);
        fs::remove_dir(&stage.file.path).unwrap();
        stage.write("b\n").unwrap();
        assert_eq!(stage.found(), ["a.log b"]);
    }

    #[test]
    fn directory_in_place_of_a_rotated_file_is_reported_and_loses_nothing() {
        let mut stage = Stage::new(4, 1);
        stage.write("abc\n").unwrap();
        fs::create_dir(stage.dir.path().join("a.log.1")).unwrap();
        assert!(stage.write("d\n").is_err());
        assert_eq!(stage.found(), ["a.log abc\nd", "a.log.1 ?"]);
    }
}
