//! Reads files that a person names, without trusting them.

use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use start_dir::from_start_dir;

/// Reads a text file of at most `most` bytes. Only regular files are read: a FIFO could block for ever, and a device
/// may never end.
pub fn read_text(path: &Path, most: u64) -> io::Result<String> {
    let path = from_start_dir(path)?;
    // Else the open itself would wait for somebody who writes to a FIFO.
    let file = OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path)?;
    let found = file.metadata()?;
    if found.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    if !found.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    limited(file, most)
}

/// Reads a text of at most `most` bytes to its end.
pub fn limited(from: impl Read, most: u64) -> io::Result<String> {
    let mut text = String::new();
    // One byte more shows that the text is longer.
    from.take(most + 1).read_to_string(&mut text)?;
    match text.len() as u64 > most {
        true => Err(io::Error::other(format!("it is larger than {most} bytes, which is the most"))),
        false => Ok(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let (file, fifo) = (dir.path().join("file"), dir.path().join("fifo"));
        std::fs::write(&file, "four").unwrap();
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
        assert_eq!(read_text(&file, 4).unwrap(), "four");
        assert!(read_text(&file, 3).unwrap_err().to_string().contains("larger than 3 bytes"));
        for other in [fifo.as_path(), Path::new("/dev/zero")] {
            assert_eq!(read_text(other, 4).unwrap_err().to_string(), "it is no regular file");
        }
        assert!(limited(io::repeat(b'x'), 1 << 20).is_err());
    }
}
