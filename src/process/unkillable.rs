//! Why a process that was killed still exists, as far as the kernel says.

use std::fs;

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;

/// The reason in words, with the pid. 0 stands for a process that cannot be seen from here.
pub fn cause(pid: i32) -> String {
    if pid == 0 {
        return "a process that cannot be seen from here (in another pid namespace?) does not die".into();
    }
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    // Signal 0 only asks whether we may send one (kill(2)).
    let is_refused = kill(Pid::from_raw(pid), None) == Err(Errno::EPERM);
    let place = fs::read_to_string(format!("/proc/{pid}/wchan")).unwrap_or_default();
    in_words(pid, &status, is_refused, &place)
}

fn in_words(pid: i32, status: &str, is_refused: bool, place: &str) -> String {
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()).unwrap_or("?")
    };
    let name = field("Name:");
    let effective = |line: &str| line.split_whitespace().nth(1).map(str::to_owned);
    let user =
        status.lines().find_map(|line| line.strip_prefix("Uid:").and_then(effective)).unwrap_or_default();
    let (state, tracer) = (field("State:"), field("TracerPid:"));
    match (is_refused, state, place) {
        (true, ..) => format!(
            "process {pid} ({name}) does not die: it runs as user {user}, and we may not signal it (EPERM); end it as root"
        ),
        (_, "Z", _) if !matches!(tracer, "?" | "0") => {
            format!("process {pid} ({name}) has ended, but process {tracer} traces it and does not let it go")
        }
        (_, _, "" | "0") => format!("process {pid} ({name}) is in state {state} and does not die"),
        _ => format!("process {pid} ({name}) is in state {state} (waits in {place}) and does not die"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STATUS: &str = "Name:\tcc1\nState:\tD (disk sleep)\nTracerPid:\t0\nUid:\t33\t0\t0\t0\n";

    #[test]
    fn message_says_why_a_process_does_not_die() {
        let traced = STATUS.replace("D (disk sleep)", "Z (zombie)").replace("TracerPid:\t0", "TracerPid:\t7");
        for (words, expected) in [
            (in_words(5, STATUS, false, "0"), "process 5 (cc1) is in state D and does not die"),
            (
                in_words(5, STATUS, false, "nfs"),
                "process 5 (cc1) is in state D (waits in nfs) and does not die",
            ),
            (in_words(5, "", false, ""), "process 5 (?) is in state ? and does not die"),
            (
                in_words(5, STATUS, true, "nfs"),
                "process 5 (cc1) does not die: it runs as user 0, and we may not signal it (EPERM); end it as root",
            ),
            (
                in_words(5, &traced, false, ""),
                "process 5 (cc1) has ended, but process 7 traces it and does not let it go",
            ),
        ] {
            assert_eq!(words, expected);
        }
        assert!(cause(0).contains("cannot be seen"));
    }
}
