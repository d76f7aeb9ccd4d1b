//! When the keeper is gone, the supervisor kills what is left and exits too.
//!
//! Leaders die with the keeper (PDEATHSIG), but only after its socket is closed: until then one may still start
//! processes. Their own children survive them. With a cgroup the supervisor finds all of them; without one, all that
//! have the keeper's [`mark`], or its tag in the environment. If keeper and supervisor die together, the next start
//! does the same.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::time::Duration;

use nix::errno::Errno;

use super::traces::{Traces, may_signal, pids};
use super::{TAG_VARIABLE, cgroup, children, mark, sys};

/// The pause between two scans: processes that were killed need a moment to go.
const PAUSE: Duration = Duration::from_millis(2);

/// Where processes come and go all the time, this many passes that find none of ours are enough.
const RESTLESS: u32 = 20;

/// Kills the processes of a dead keeper. It is made when the keeper says hello.
pub struct Sweeper {
    traces: Traces,
    kill: Option<File>,
    entry: Vec<u8>,
}

/// Result of a sweep.
#[derive(Clone, Debug, Default)]
pub struct Swept {
    /// Number of signals sent to processes with the mark or the tag.
    pub kills: usize,
    /// The processes that are left: none if all have ended.
    pub left: Vec<Left>,
}

/// A process that lives on and belongs to the dead keeper, or may belong to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Left {
    /// Its pid, 0 if it is in a pid namespace that cannot be seen.
    pub pid: i32,
    /// The name of its program.
    pub name: String,
    /// Why it could not be ended.
    pub why: String,
}

impl Left {
    fn new(pid: i32, why: impl Into<String>) -> Self {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        Left { pid, name: name.trim_end().into(), why: why.into() }
    }

    /// A process to which SIGKILL was sent with this result.
    fn killed(pid: i32, sent: nix::Result<()>) -> Self {
        match sent {
            Err(errno @ Errno::EPERM) => {
                Left::new(pid, format!("it runs as another user and cannot be signalled ({errno})"))
            }
            Ok(()) | Err(_) => {
                Left::new(pid, format!("killed, and still in state {}", children::state_of(pid)))
            }
        }
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.pid, self.name, self.why)
    }
}

impl Sweeper {
    /// For the keeper with this pid and [`super::tag`]. Opens what it needs while the keeper certainly lives.
    pub fn new(keeper: i32, tag: &str) -> Option<Self> {
        Traces::of_keeper(keeper, tag).map(Sweeper::of_traces)
    }

    /// A sweep for a dead keeper.
    pub fn of_traces(traces: Traces) -> Self {
        let kill = traces.dir.as_ref().map(|dir| File::options().write(true).open(dir.join("cgroup.kill")));
        let entry = format!("{TAG_VARIABLE}={}", traces.tag()).into_bytes();
        Sweeper { kill: kill.and_then(Result::ok), traces, entry }
    }

    /// Kills all that is left, for `longest` at most.
    pub fn sweep(mut self, longest: Duration) -> Swept {
        let end = clock::now() + longest;
        let (mut kills, mut calm, mut unsure) = (0, 0, BTreeSet::new());
        loop {
            if let Some(kill) = &mut self.kill {
                _ = kill.write_all(b"1");
            }
            let pass = self.look();
            let killed: Vec<_> =
                pass.ours.iter().map(|&pid| Left::killed(pid, sys::kill(pid, libc::SIGKILL))).collect();
            kills += killed.len();
            let inhabited = self.traces.dir.as_deref().filter(|dir| !cgroup::empty(dir));
            calm = if killed.is_empty() { calm + 1 } else { 0 };
            let settled = calm > 0 && (pass.unsure.is_subset(&unsure) || calm > RESTLESS);
            unsure = pass.unsure;
            let is_clean = settled && inhabited.is_none() && pass.hidden.is_empty() && pass.blind.is_none();
            if is_clean || clock::now() >= end {
                let mut left = killed;
                left.extend(inhabited.map(left_in).into_iter().flatten());
                left.extend(pass.blind);
                left.extend(pass.hidden.iter().map(|&pid| Left::new(pid, "it could not be looked at")));
                left.sort_by_key(|left| left.pid);
                left.dedup_by_key(|left| left.pid);
                return Swept { kills, left: if is_clean { Vec::new() } else { left } };
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Looks at all processes once.
    fn look(&self) -> Pass {
        let own = std::process::id() as i32;
        let mut pass = Pass::default();
        let pids = pids().unwrap_or_else(|error| {
            pass.blind = Some(Left::new(0, format!("the list of processes could not be read ({error})")));
            Vec::new()
        });
        for pid in pids.into_iter().filter(|&pid| pid != own) {
            match self.whose(pid) {
                Whose::Ours => pass.ours.push(pid),
                Whose::Unsure => _ = pass.unsure.insert(pid),
                Whose::Hidden => pass.hidden.push(pid),
                Whose::Others => {}
            }
        }
        pass
    }

    fn whose(&self, pid: i32) -> Whose {
        let by_mark = mark::is_on(pid, self.traces.mark());
        let environ = fs::read(format!("/proc/{pid}/environ"));
        let has_tag = |environ: &Vec<u8>| environ.split(|&byte| byte == 0).any(|entry| entry == self.entry);
        if matches!(by_mark, Ok(true)) || environ.as_ref().is_ok_and(has_tag) {
            return if children::is_dead(pid) { Whose::Unsure } else { Whose::Ours };
        }
        match (by_mark, environ) {
            // Every descendant of the keeper has the mark, and this one has not.
            (Ok(_), _) if self.traces.marked => Whose::Others,
            (_, Ok(environ)) if !environ.is_empty() => Whose::Others,
            _ if self.is_of_older_session(pid) => Whose::Others,
            (_, Err(error)) if error.kind() == ErrorKind::PermissionDenied => match may_signal(pid) {
                true => Whose::Hidden,
                false => Whose::Others,
            },
            _ => Whose::Unsure,
        }
    }

    /// Whether a process or its session is older than the keeper: then the keeper did not start it.
    fn is_of_older_session(&self, pid: i32) -> bool {
        let is_older = |pid| children::start_of(pid).is_ok_and(|start| start < self.traces.start);
        is_older(pid) || children::session_of(pid).is_some_and(is_older)
    }
}

/// The processes in a cgroup and below it.
fn left_in(dir: &std::path::Path) -> Vec<Left> {
    let pids = cgroup::inhabitants_below(dir);
    let of_cgroup = |pid| Left::new(pid, format!("killed, and still in state {}", children::state_of(pid)));
    match pids.is_empty() {
        true => {
            vec![Left::new(0, format!("something lives in {} and cannot be seen from here", dir.display()))]
        }
        false => pids.into_iter().map(of_cgroup).collect(),
    }
}

/// Result of one pass over all processes.
#[derive(Default)]
struct Pass {
    /// Live processes with the mark or the tag.
    ours: Vec<i32>,
    /// Processes that may be ours and cannot be looked at.
    hidden: Vec<i32>,
    /// Why the list of processes could not be read.
    blind: Option<Left>,
    /// Processes that had ended before we looked, or were in the middle of an exec and have no mark. One may have been
    /// ours, and may have started another that was not in the list. A pass counts only if it finds no new ones.
    unsure: BTreeSet<i32>,
}

/// To whom a process belongs.
#[derive(Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    Others,
    /// It has ended, or it is not certain yet.
    Unsure,
    /// It may be ours, but we may not look at it.
    Hidden,
}
