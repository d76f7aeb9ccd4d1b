//! Numbered places where a test may make a process die at once, as by `kill -9` or a power cut, or panic. Not in
//! release builds.

#![warn(unreachable_pub)]

/// All failpoints, in the order of a job's life; each names what has just happened, or is about to.
pub const ALL: [&str; 12] = [
    "keeper-1-forked",
    "keeper-2-started-said",
    "supervisor-3-fetched",
    "supervisor-4-before-assign",
    "supervisor-5-assigned",
    "keeper-6-reaped",
    "keeper-7-proven",
    "supervisor-8-exit-heard",
    "supervisor-9-before-settle",
    "store-10-before-commit",
    "store-11-committed",
    "store-12-synced",
];

/// Kills this process if a file of that name is in `$TASKVISOR_FAILPOINTS`, or panics if the file says so. The file is
/// removed first, so it happens once.
#[inline]
pub fn failpoint(name: &str) {
    if cfg!(debug_assertions) {
        die_if_asked(name);
    }
}

fn die_if_asked(name: &str) {
    use std::path::PathBuf;
    use std::sync::OnceLock;
    static DIR: OnceLock<Option<PathBuf>> = OnceLock::new();
    debug_assert!(ALL.contains(&name), "no failpoint is called {name}");
    let dir = DIR.get_or_init(|| std::env::var_os("TASKVISOR_FAILPOINTS").map(PathBuf::from));
    let Some(file) = dir.as_ref().map(|dir| dir.join(name)) else { return };
    let Ok(how) = std::fs::read(&file) else { return };
    if std::fs::remove_file(&file).is_err() {
        return;
    }
    match how.as_slice() {
        b"panic" => std::panic::panic_any(name.to_owned()),
        // The signal reaches this process before the call returns.
        _ => drop(nix::sys::signal::kill(nix::unistd::Pid::this(), nix::sys::signal::Signal::SIGKILL)),
    }
}
