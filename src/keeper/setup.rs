//! The keeper's start parameters. It reads no configuration.

use std::ffi::{OsStr, OsString};
use std::os::fd::RawFd;
use std::str::FromStr;
use std::time::Duration;

/// The reason for a missing ability that [`Without`] switches off.
pub(super) const SWITCHED_OFF: &str = "switched off by TASKVISOR_WITHOUT";

/// All start parameters of the keeper.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Path of the supervisor's program and its arguments.
    pub supervisor: Vec<OsString>,
    /// Added to the supervisor's environment.
    pub env: Vec<(OsString, OsString)>,
    /// Descriptors (locked files) that keeper and supervisor hold as long as they live and no child gets. Not 3.
    pub lock_fds: Vec<RawFd>,
    /// How long the supervisor may leave an order to stop unread.
    pub stop_deadline: Duration,
    /// How long a supervisor may leave reports unread before it counts as hanging. Under systemd's watchdog, its
    /// interval replaces this.
    pub silence: Duration,
    /// Memory that all of it has together, in bytes, if that is known.
    pub memory: Option<u64>,
    /// When to start a crashed supervisor again.
    pub restarts: Restarts,
    /// Kernel abilities to do without.
    pub without: Without,
}

/// When to start a crashed supervisor again: first at once, then after `first`, doubled each time, up to `longest`.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    /// The wait before the second restart.
    pub first: Duration,
    /// The longest wait before a restart.
    pub longest: Duration,
    /// This number of crashes…
    pub crashes: usize,
    /// …within this time ends the keeper.
    pub within: Duration,
}

/// Kernel abilities that are switched off: `TASKVISOR_WITHOUT=cgroup,clone3,subreaper,memory,pids,hugetlb,undumpable`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Without {
    /// No cgroup of its own for each life.
    pub cgroup: bool,
    /// `fork` in place of clone3; the child enters its cgroup by itself.
    pub clone3: bool,
    /// The keeper does not adopt orphans: without a cgroup there is no proof then.
    pub subreaper: bool,
    /// No memory controller of cgroups.
    pub memory: bool,
    /// No pids controller.
    pub pids: bool,
    /// No controller of huge pages.
    pub hugetlb: bool,
    /// Leaves keeper and supervisor dumpable, so that a debugger of the same user can attach.
    pub undumpable: bool,
}

impl Setup {
    /// The default parameters for a supervisor's command line.
    pub fn new(supervisor: Vec<OsString>) -> Self {
        Setup {
            supervisor,
            env: Vec::new(),
            lock_fds: Vec::new(),
            stop_deadline: Duration::from_secs(30),
            silence: Duration::from_secs(30),
            memory: None,
            restarts: Restarts {
                first: Duration::from_millis(100),
                longest: Duration::from_secs(30),
                crashes: 5,
                within: Duration::from_secs(60),
            },
            without: Without::from_env(),
        }
    }

    /// Reads `[--lock-fd N]… [--stop-deadline SECONDS] [--silence SECONDS] [--memory BYTES] -- SUPERVISOR…`.
    pub fn parse(mut args: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let mut setup = Setup::new(Vec::new());
        loop {
            let Some(option) = args.next() else {
                return Err("expected -- and the supervisor's command".into());
            };
            match option.to_str() {
                Some("--") => break,
                Some("--lock-fd") => setup.lock_fds.push(number(args.next(), "--lock-fd")?),
                Some("--stop-deadline") => setup.stop_deadline = seconds(args.next(), "--stop-deadline")?,
                Some("--silence") => setup.silence = seconds(args.next(), "--silence")?,
                Some("--memory") => setup.memory = Some(number(args.next(), "--memory")?),
                Some(_) | None => return Err(format!("unknown option {}", option.display())),
            }
        }
        setup.supervisor = args.collect();
        if setup.supervisor.is_empty() {
            return Err("expected the supervisor's command after --".into());
        }
        if setup.lock_fds.iter().any(|fd| (0..=3).contains(fd)) {
            return Err("a lock cannot be descriptor 0 to 3".into());
        }
        Ok(setup)
    }
}

fn number<T: FromStr>(text: Option<OsString>, option: &str) -> Result<T, String> {
    let text = text.unwrap_or_default();
    text.to_str().and_then(|text| text.parse().ok()).ok_or(format!("{option} needs a number"))
}

fn seconds(text: Option<OsString>, option: &str) -> Result<Duration, String> {
    let text = text.unwrap_or_default();
    let seconds = text.to_str().and_then(|text| text.parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.0..1e9).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or(format!("{option} needs seconds"))
}

impl Without {
    /// Closes this process to others of its user, as jobs could read secrets in its memory and environment. Its forks
    /// are closed too, until they execute a program.
    pub fn close_to_others(self) {
        if !self.undumpable {
            _ = nix::sys::prctl::set_dumpable(false);
        }
    }

    /// Reads `TASKVISOR_WITHOUT`. Names that are unknown here are ignored.
    pub fn from_env() -> Self {
        let list = std::env::var_os("TASKVISOR_WITHOUT").unwrap_or_default();
        Without::parse(&list)
    }

    fn parse(list: &OsStr) -> Self {
        let list = list.to_string_lossy();
        let has = |name: &str| list.split(',').any(|word| word.trim() == name);
        Without {
            cgroup: has("cgroup"),
            clone3: has("clone3"),
            subreaper: has("subreaper"),
            memory: has("memory"),
            pids: has("pids"),
            hugetlb: has("hugetlb"),
            undumpable: has("undumpable"),
        }
    }

    /// Whether a controller of cgroups is switched off.
    pub(super) fn controller(self, name: &str) -> bool {
        match name {
            "memory" => self.memory,
            "pids" => self.pids,
            "hugetlb" => self.hugetlb,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Setup, String> {
        Setup::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_come_before_the_supervisors_command() {
        let setup = parse(
            "--lock-fd 9 --lock-fd 8 --stop-deadline 1.5 --silence 4 --memory 5 -- /bin/true --lock-fd",
        )
        .unwrap();
        assert_eq!(setup.lock_fds, [9, 8]);
        assert_eq!(setup.stop_deadline, Duration::from_millis(1500));
        assert_eq!((setup.silence, setup.memory), (Duration::from_secs(4), Some(5)));
        assert_eq!(setup.supervisor, ["/bin/true", "--lock-fd"]);
    }

    #[test]
    fn unknown_options_are_refused() {
        for line in
            ["", "--", "--lock-fd 3 -- a", "--lock-fd x -- a", "--stop-deadline -1 -- a", "--fast -- a"]
        {
            assert!(parse(line).is_err(), "{line}");
        }
    }

    #[test]
    fn abilities_are_switched_off_by_name() {
        let without = Without::parse(OsStr::new("pidfd, cgroup"));
        assert!(without.cgroup && !without.clone3 && !without.subreaper);
    }
}
