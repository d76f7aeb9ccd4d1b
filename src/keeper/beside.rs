//! Processes beside the supervisor that are no lives: the page for browsers, and the doctor.

use std::fs::File;
use std::io::{self, Write};

use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use nix::unistd::getppid;

use super::{priority, sys};

/// Has no program that this process starts from now on inherit a descriptor, such as a lock.
pub fn keep_descriptors() {
    sys::close_on_exec_from(3);
}

/// Gives up for good what this process does not need to answer browsers: it keeps its user alone, no capability, no priority and gains
/// none, writes to no file, is the first to go when memory is short, and dies with its parent. It stays in its parent's
/// session, which has no terminal: by it the keeper knows that no job has left it. False if `parent` is dead already.
pub fn live_beside(parent: i32) -> io::Result<bool> {
    priority::lower();
    _ = prctl::set_name(c"tv-web");
    let score = File::options().write(true).open("/proc/self/oom_score_adj");
    _ = score.and_then(|mut score| score.write_all(b"1000"));
    prctl::set_no_new_privs()?;
    sys::drop_capabilities()?;
    prctl::set_dumpable(false)?;
    setrlimit(Resource::RLIMIT_FSIZE, 0, 0)?;
    // Last: the kernel forgets it where capabilities change.
    die_with(parent)
}

/// Has this process, a doctor, die with its parent. It keeps all that its parent has, as it looks at that. False if
/// `parent` is dead already.
pub fn look_beside(parent: i32) -> io::Result<bool> {
    prctl::set_name(c"tv-doctor")?;
    die_with(parent)
}

fn die_with(parent: i32) -> io::Result<bool> {
    prctl::set_pdeathsig(Signal::SIGKILL)?;
    Ok(getppid().as_raw() == parent)
}
