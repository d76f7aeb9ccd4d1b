//! A file whose execution hangs, as on a network filesystem that does not answer: nobody answers the kernel's question
//! whether it may be executed (fanotify).
#![allow(unsafe_code, reason = "no library here has these calls")]

use std::ffi::CString;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::path::Path;

/// Executions of one file hang until this is dropped. They can be killed.
pub struct Hang(#[allow(dead_code, reason = "held open")] OwnedFd);

impl Hang {
    /// `None` where the test may not do that.
    pub fn on(path: &Path) -> Option<Hang> {
        let name = CString::new(path.as_os_str().as_encoded_bytes()).expect("no NUL");
        // SAFETY: numbers only; the descriptor is ours alone.
        let group = unsafe {
            let group =
                libc::fanotify_init(libc::FAN_CLASS_CONTENT | libc::FAN_CLOEXEC, libc::O_RDONLY as u32);
            (group >= 0).then(|| OwnedFd::from_raw_fd(group))?
        };
        let (add, exec) = (libc::FAN_MARK_ADD, libc::FAN_OPEN_EXEC_PERM);
        // SAFETY: the path ends in NUL.
        let marked =
            unsafe { libc::fanotify_mark(group.as_raw_fd(), add, exec, libc::AT_FDCWD, name.as_ptr()) };
        (marked == 0).then_some(Hang(group))
    }
}
