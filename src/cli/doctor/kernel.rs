//! Checks the kernel's abilities, with the keeper's own code, and which program is process 1.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use nix::sys::utsname::uname;

use keeper::{Abilities, Missing, Without, abilities, essentials};
use model::Finding;

/// The oldest kernel version with everything that the keeper needs.
const OLDEST: (u32, u32) = (5, 3);

pub(super) fn checks() -> Vec<Finding> {
    let release = uname().map(|names| names.release().to_string_lossy().into_owned()).unwrap_or_default();
    let without = Without::from_env();
    let found = abilities(without);
    // It starts a thread, so it comes behind what needs a process with one.
    let mut checks = vec![kernel(&release), needs(essentials()), cgroup(&found), birth(&found)];
    checks.extend(["memory", "pids"].map(|name| controller(name, &found)));
    checks.extend([subreaper(&found), children(&found), proc(&read("/proc/self/mountinfo"))]);
    checks.push(ptrace(&read("/proc/sys/kernel/yama/ptrace_scope")));
    checks.extend([first_process(&read("/proc/1/comm")), systemd()]);
    checks
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

fn kernel(release: &str) -> Finding {
    let mut numbers =
        release.split(|c: char| !c.is_ascii_digit()).filter_map(|number| number.parse::<u32>().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let found = format!("Linux {release}");
    if version < OLDEST {
        return Finding::bad(
            "kernel",
            found,
            "taskvisor needs 5.3 or newer and is not tested on this one",
            "a newer kernel",
        );
    }
    Finding::ok("kernel", found)
}

fn needs(found: Result<(), Missing>) -> Finding {
    match found {
        Ok(()) => Finding::ok("system calls", "all that keeper and supervisor need"),
        Err(missing) => {
            Finding::bad("system calls", missing.to_string(), "nothing can be started", missing.remedy)
        }
    }
}

fn cgroup(found: &Abilities) -> Finding {
    match &found.cgroup {
        Ok(path) => Finding::ok("cgroup v2", format!("a cgroup for each life below {}", path.display())),
        Err(why) => Finding::less(
            "cgroup v2",
            why,
            "the end of a job's processes is proven by the keeper's own list of children, which takes a little longer",
            "systemd: Delegate=yes in the unit, and ask there; container: cgroup v2 mounted writable; shell: \
             systemd-run --user --scope -p Delegate=yes",
        ),
    }
}

fn birth(found: &Abilities) -> Finding {
    match (&found.cgroup, found.born_there) {
        (Ok(_), true) => Finding::ok("clone3", "children are born in their cgroup"),
        (Ok(_), false) => Finding::less(
            "clone3",
            "refused, or switched off",
            "each child is moved to its cgroup, which may take the kernel 16 ms",
            "RestrictNamespaces=no in the unit; a seccomp profile of the container that lets clone3 pass; Linux 5.7 or newer",
        ),
        (Err(_), _) => Finding::ok("clone3", "not needed without cgroups"),
    }
}

/// With it the kernel enforces limits between two measurements.
fn controller(name: &'static str, found: &Abilities) -> Finding {
    let (title, held, effect) = match name {
        "memory" => (
            "memory controller",
            "the kernel holds limits.memory, too",
            "limits.memory is kept by looking alone: a hog gets some MB further, and all it wants while the supervisor hangs",
        ),
        _ => (
            "pids controller",
            "the kernel stops a bomb well behind limits.processes",
            "limits.processes is kept by looking alone: a bomb has some hundred processes before it is killed",
        ),
    };
    let why = match &found.controllers {
        Ok(names) if names.contains(&name) => return Finding::ok(title, held),
        Ok(_) => "not handed down, or switched off",
        Err(why) => why,
    };
    let remedy = "systemd: Delegate=yes in the unit, ExecStart without a shell, and ask there by an ExecStartPre without one; \
                  container: cgroup v2 mounted writable, and taskvisor alone in it";
    Finding::less(title, why, effect, remedy)
}

fn subreaper(found: &Abilities) -> Finding {
    match (&found.subreaper, &found.cgroup) {
        (Ok(()), _) => Finding::ok("subreaper", "orphans of a job come to the keeper"),
        (Err(why), Ok(_)) => Finding::less(
            "subreaper",
            why,
            "the end of a job is proven by its cgroup alone",
            "unset TASKVISOR_WITHOUT",
        ),
        (Err(why), Err(_)) => Finding::bad(
            "subreaper",
            why,
            "without it and without cgroups nothing proves that a job's processes have ended",
            "unset TASKVISOR_WITHOUT, or see cgroup v2",
        ),
    }
}

fn children(found: &Abilities) -> Finding {
    match &found.children {
        Ok(()) => Finding::ok("children in /proc", "listed by the kernel"),
        Err(why) => Finding::bad(
            "children in /proc",
            format!("/proc/self/task/TID/children: {why}"),
            "the keeper does not start",
            "mount -t proc proc /proc, and a kernel with CONFIG_PROC_CHILDREN",
        ),
    }
}

/// Whether processes of other users are visible.
fn proc(mounts: &str) -> Finding {
    // Of several mounts in one place the last is on top.
    let line = mounts.lines().rfind(|line| line.split(' ').nth(4) == Some("/proc"));
    // In mountinfo the options of the file system come last.
    let options = line.and_then(|line| line.split(' ').next_back()).unwrap_or_default();
    let hidden = options.split(',').find_map(|option| option.strip_prefix("hidepid="));
    match (line, hidden) {
        (None, _) => {
            Finding::bad("/proc", "not mounted", "nothing can be started", "mount -t proc proc /proc")
        }
        (Some(_), None | Some("0" | "off")) => Finding::ok("/proc", "shows all processes"),
        (Some(_), Some(_)) if nix::unistd::geteuid().is_root() => Finding::ok(
            "/proc",
            format!("hidepid={}, which does not hold for root", hidden.unwrap_or_default()),
        ),
        (Some(_), Some(value)) => Finding::less(
            "/proc",
            format!("hidepid={value}"),
            "processes of other users are not to be seen in status and after a keeper's death",
            "mount -o remount,hidepid=0 /proc, or its gid= with the group of taskvisor's user",
        ),
    }
}

fn ptrace(scope: &str) -> Finding {
    match scope.trim() {
        // Kernels without Yama have no such file.
        "" | "0" | "1" => Finding::ok("ptrace", "debuggers may look at jobs as usual"),
        value => Finding::less(
            "ptrace",
            format!("kernel.yama.ptrace_scope = {value}"),
            "gdb, strace and py-spy attach to a job as root only, or not at all",
            "sysctl kernel.yama.ptrace_scope=1 while you look",
        ),
    }
}

/// A shell as process 1 passes no signals on.
fn first_process(comm: &str) -> Finding {
    match comm.trim() {
        shell @ ("sh" | "bash" | "dash" | "ash" | "busybox" | "zsh") => Finding::less(
            "process 1",
            format!("{shell}, a shell"),
            "the end of the container reaches the shell and not taskvisor: jobs are killed without a warning",
            "the exec form: ENTRYPOINT [\"taskvisor\", \"start\"], or exec taskvisor in the script",
        ),
        "" => Finding::ok("process 1", "not to be seen"),
        comm => Finding::ok("process 1", comm),
    }
}

fn systemd() -> Finding {
    // As sd_booted(3) tells it.
    if !Path::new("/run/systemd/system").exists() {
        return Finding::ok("systemd", "does not rule this machine");
    }
    let asked = Command::new("systemctl").arg("--version").stdin(Stdio::null()).output();
    let text = asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let version: Option<u32> = text.split_whitespace().nth(1).and_then(|number| number.parse().ok());
    let watched = match std::env::var_os("NOTIFY_SOCKET") {
        Some(_) => "and hears this process",
        None => "this is no service of its own",
    };
    match version {
        Some(version) => Finding::ok("systemd", format!("version {version}, {watched}")),
        None => Finding::ok("systemd", format!("of a version that systemctl does not tell, {watched}")),
    }
}

#[cfg(test)]
mod tests {
    use model::Fitness;

    use super::*;

    fn bare() -> Abilities {
        Abilities {
            cgroup: Err("not mounted".into()),
            born_there: false,
            controllers: Err("there are no cgroups".into()),
            subreaper: Ok(()),
            children: Ok(()),
        }
    }

    fn with_cgroup() -> Abilities {
        Abilities {
            cgroup: Ok("/sys/fs/cgroup/a".into()),
            born_there: true,
            controllers: Ok(vec!["memory"]),
            ..bare()
        }
    }

    #[test]
    fn missing_kernel_feature_has_an_effect_and_a_remedy() {
        let bare = bare();
        let check = cgroup(&bare);
        assert_eq!(check.state, Fitness::Less);
        assert!(!check.effect.is_empty() && !check.remedy.is_empty(), "{check:?}");
        assert_eq!(controller("memory", &with_cgroup()).state, Fitness::Ok);
        let pids = controller("pids", &with_cgroup());
        assert!(pids.state == Fitness::Less && !pids.remedy.is_empty(), "{pids:?}");
        assert_eq!(controller("pids", &bare).found, "there are no cgroups");
    }

    #[test]
    fn missing_proof_of_death_is_bad() {
        let lost = Err("switched off".to_owned());
        assert_eq!(subreaper(&Abilities { subreaper: lost.clone(), ..with_cgroup() }).state, Fitness::Less);
        assert_eq!(subreaper(&Abilities { subreaper: lost, ..bare() }).state, Fitness::Bad);
    }

    #[test]
    fn a_kernel_is_judged_by_its_numbers() {
        for (release, state) in [
            ("6.1.0-56-cloud-amd64", Fitness::Ok),
            ("5.3.0", Fitness::Ok),
            ("5.2.21", Fitness::Bad),
            ("4.19.0-27", Fitness::Bad),
        ] {
            assert_eq!(kernel(release).state, state, "{release}");
        }
    }

    #[test]
    fn hidden_and_missing_proc_are_reported() {
        let line = |options: &str| format!("25 30 0:23 / /proc rw,nosuid - proc proc rw{options}\n");
        assert_eq!(proc(&line("")).state, Fitness::Ok);
        assert_eq!(proc("").state, Fitness::Bad);
        let hidden = proc(&line(",hidepid=invisible"));
        assert!(hidden.found.starts_with("hidepid=invisible"), "{hidden:?}");
    }

    #[test]
    fn a_shell_as_process_1_is_reported() {
        assert_eq!(first_process("sh\n").state, Fitness::Less);
        assert_eq!(first_process("systemd\n").state, Fitness::Ok);
    }

    #[test]
    fn strict_ptrace_scope_is_reported() {
        assert_eq!(ptrace("1\n").state, Fitness::Ok);
        assert_eq!(ptrace("3\n").state, Fitness::Less);
    }
}
