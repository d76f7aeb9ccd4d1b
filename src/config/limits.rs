//! Limits of attempts, from the file to their meaning.

use std::collections::BTreeMap;
use std::time::Duration;

use super::kinds::of_file;
use super::made::Made;
use super::pool_values::Named;
use super::purpose::Reading;
use super::row::{Flag, Kind};
use super::section::{Section, settings};
use super::size::Size;
use super::wrong::Wrong;
use super::{Fault, Purpose, Surroundings};
use model::{self, Class, ProcessLimits};
use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};

/// Fewest descriptors with which a worker can run: the Python package keeps some of its own above 100.
const FEWEST_FILES: u64 = 128;

settings! {
    /// The limits of a pool, or of one of its classes, in the file.
    #[serde(deny_unknown_fields, expecting = "{time: 10m, memory: 1GB, …}")]
    pub struct Limits("limits.") => OfAttempt {
        /// Longest run of an attempt.
        time: Duration => (at attempt.time) {
            default_in_docs: "`null`: none",
            flags: &[
                Flag::new("limits.time", "time-limit", "DURATION", Kind::Duration, "The longest run of an attempt, for jobs that bring none"),
            ],
            docs: "the longest run of an attempt, for jobs that bring none",
            conf: "The longest run (--time-limit): then TERM, and KILL a grace later.",
        }
        /// When the worker tells the job that its time is nearly over.
        soft_time: Duration => (at attempt.soft_time) {
            default_in_docs: "`null`: none",
            docs: "when the worker tells the job that its time is nearly over",
            conf: "After this time the worker tells the job that its time is nearly over. Programs are told nothing.",
        }
        /// Memory of a job's tree.
        memory: Size => (at attempt.memory) {
            default_in_docs: "`null`: none",
            docs: "[memory](workers.md#limits-and-retries) of a job's process tree",
            conf: "Memory of its process tree: KILL. In modes prefork and coroutine the application counts, too.",
        }
        /// CPU time of a job's tree.
        cpu: Duration => (at attempt.cpu) {
            default_in_docs: "`null`: none",
            docs: "CPU time of a job's process tree; not for mode `coroutine`",
            conf: "CPU time of its process tree: TERM, KILL a grace later. Not for mode coroutine, nor is processes.",
        }
        /// Processes of a job's tree at a time.
        processes: u64 => (at attempt.processes) {
            default_in_docs: "`null`: none",
            docs: "processes of a job's tree at a time; not for mode `coroutine`",
            conf: "Processes of its tree at a time: KILL.",
        }
        /// Bytes printed by an attempt.
        output: Size => (at attempt.output) {
            default_in_docs: "`null`: none",
            docs: "what an attempt prints",
            conf: "What it prints: TERM, KILL a grace later. What is kept of it is cut at 10 MiB in any case.",
        }
        /// Descriptors of a process.
        open_files: u64 => (at process.open_files) {
            default_in_docs: "`null`: the supervisor's",
            docs: "descriptors of each process, 128 or more; only root can go above `ulimit -Hn`",
            conf: "Of each process of the pool: its limit of open files, its nice value (-20 to 19), its oom_score_adj (-1000 to 1000). null = the supervisor's; oom_score_adj is raised by what 128 MiB of memory count for, so that the kernel kills a job before the supervisor.",
        }
        /// Niceness of a process.
        nice: i32 => (at process.nice) {
            default_in_docs: "`null`: that of `taskvisor start`",
            docs: "-20 to 19; only root can go below 0",
        }
        /// Score of a process for the out-of-memory killer.
        oom_score_adj: i32 => (at process.oom_score_adj) {
            default_in_docs: "`null`: the supervisor's or 0, the greater, plus what 128 MiB count for in the memory of machine or container: 8 with 16 GB, 125 with 1 GiB, at most 500",
            docs: "-1000 to 1000: who is killed first for want of memory; only root can go below the supervisor's",
        }
    }
}

of_file!(Named<Limits>: &[]);

/// The limits of an attempt, and those of the processes that it begins with.
#[derive(Default)]
pub(super) struct OfAttempt {
    attempt: model::Limits,
    process: ProcessLimits,
}

impl OfAttempt {
    /// Those of a pool.
    pub(crate) fn of(made: &Made) -> OfAttempt {
        OfAttempt { attempt: made.pool.limits, process: made.spec.process_limits }
    }
}

impl Limits {
    /// The limits of an attempt.
    fn of_attempt(self, of: &str, shared: bool, with: &Reading<'_>) -> Result<OfAttempt, Wrong> {
        self.are_no_nonsense(of)?;
        let alone = [("cpu", self.cpu.is_some()), ("processes", self.processes.is_some())];
        if let Some((name, _)) = alone.iter().find(|(_, said)| shared && *said) {
            let message = format!(
                "{of}{name} cannot be held: the jobs of a worker of mode coroutine share its process"
            );
            return Err(Wrong::new(format!("{of}{name}"), message).hint("use mode prefork or fork"));
        }
        let mut limits = OfAttempt::default();
        self.write(&mut limits, with)?;
        Ok(limits)
    }

    fn are_no_nonsense(&self, of: &str) -> Result<(), Wrong> {
        let is_zero = |time: Option<Duration>| time == Some(Duration::ZERO);
        let zeros = [
            ("time", is_zero(self.time)),
            ("soft_time", is_zero(self.soft_time)),
            ("memory", self.memory == Some(Size(0))),
            ("cpu", is_zero(self.cpu)),
            ("processes", self.processes == Some(0)),
            ("output", self.output == Some(Size(0))),
        ];
        if let Some((name, _)) = zeros.iter().find(|(_, zero)| *zero) {
            return Err(Wrong::new(format!("{of}{name}"), format!("{of}{name} is 0: no job could run"))
                .hint("leave it out, or say null, for no limit"));
        }
        if let (Some(soft), Some(time)) = (self.soft_time, self.time)
            && soft >= time
        {
            let message = format!("{of}soft_time is not before {of}time: no job would be told in time");
            return Err(Wrong::new(format!("{of}soft_time"), message));
        }
        Ok(())
    }
}

/// Sets the limits of a pool: those of its attempts, and those of its processes.
pub(super) fn of_pool(said: Limits, _: &str, made: &mut Made, with: &Reading<'_>) -> Result<(), Wrong> {
    let OfAttempt { attempt, process } = said.of_attempt("limits.", made.shares(), with)?;
    let ProcessLimits { open_files, nice, oom_score_adj } = process;
    within("limits.nice", nice, -20, 19)?;
    within("limits.oom_score_adj", oom_score_adj, -1000, 1000)?;
    if let Some(files) = open_files.filter(|files| *files < FEWEST_FILES) {
        let message =
            format!("limits.open_files is {files}: no program could run with fewer than {FEWEST_FILES}");
        return Err(Wrong::new("limits.open_files", message));
    }
    if open_files == Some(RLIM_INFINITY) {
        let message = format!("limits.open_files is {RLIM_INFINITY}: to the kernel that is no limit at all");
        return Err(Wrong::new("limits.open_files", message).hint("leave it out, or give a number of files"));
    }
    // Only where a person waits for the answer: a restart must not fail for it.
    if with.purpose == Purpose::Start {
        may_be_had(process, with.around)?;
    }
    (made.pool.limits, made.spec.process_limits) = (attempt, process);
    Ok(())
}

/// Sets the limits of classes.
pub(super) fn of_classes(
    said: Named<Limits>,
    _: &str,
    made: &mut Made,
    with: &Reading<'_>,
) -> Result<(), Wrong> {
    let shared = made.shares();
    let classes: BTreeMap<String, Limits> = said.0.into_iter().collect();
    let one = |(name, limits): (String, Limits)| {
        let of = format!("class_limits.{name}.");
        if name.is_empty() || name.contains('*') {
            let message = format!("'{name}' in class_limits is no name of a class");
            return Err(
                Wrong::new(format!("class_limits.{name}"), message).hint("give the whole name, as mail.Send")
            );
        }
        let of_worker = [
            ("open_files", limits.open_files.is_some()),
            ("nice", limits.nice.is_some()),
            ("oom_score_adj", limits.oom_score_adj.is_some()),
            ("memory", shared && limits.memory.is_some()),
        ];
        if let Some((name, _)) = of_worker.iter().find(|(_, said)| *said) {
            let message = format!("{of}{name} cannot be held: a worker has it for all classes");
            return Err(Wrong::new(format!("{of}{name}"), message).hint("say it in limits"));
        }
        Ok((Class::from(name), limits.of_attempt(&of, shared, with)?.attempt))
    };
    made.pool.class_limits = classes.into_iter().map(one).collect::<Result<_, _>>()?;
    Ok(())
}

fn within(name: &'static str, said: Option<i32>, least: i32, most: i32) -> Result<(), Wrong> {
    match said {
        Some(number) if !(least..=most).contains(&number) => {
            Err(Wrong::new(name, format!("{name} is {number}, and can be {least} to {most}")))
        }
        Some(_) | None => Ok(()),
    }
}

/// Numbers of capabilities, from capabilities(7).
const SYS_NICE: u32 = 23;
const SYS_RESOURCE: u32 = 24;

/// Refuses limits that only root can set, or not even root here, so that workers do not fail for them.
fn may_be_had(process_limits: ProcessLimits, around: &Surroundings) -> Result<(), Wrong> {
    let may = |capability: u32| around.uid == 0 && !around.lacks(capability);
    let (may_nice, may_raise) = (may(SYS_NICE), may(SYS_RESOURCE));
    let with = |name: &str| if around.uid == 0 { format!(", with {name}") } else { String::new() };
    let (by_nice, by_raise) = (with("CAP_SYS_NICE"), with("CAP_SYS_RESOURCE"));
    let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).ok()?.trim().parse().ok();
    let own_score: i32 = read("oom_score_adj").unwrap_or(0);
    let most_files = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
    // A limit of 20 - N lets a process have the niceness N.
    // No limit at all is a number too large for i32; 40 already stands for -20, the lowest.
    let least_nice = getrlimit(Resource::RLIMIT_NICE).map_or(0, |(soft, _)| 20 - soft.min(40) as i32);
    // Everybody may have 0 or more, so only what is below it can need a right.
    let nice = process_limits.nice.filter(|nice| !may_nice && *nice < least_nice.min(0));
    let score = process_limits.oom_score_adj.filter(|score| !may_raise && *score < own_score);
    let files = process_limits.open_files.filter(|files| !may_raise && *files > most_files);
    let refused = [
        nice.map(|nice| ("limits.nice", format!("is {nice}: only root may go below 0{by_nice}"))),
        score.map(|score| {
            let why = format!("is {score}: only root may go below {own_score}, which it is now{by_raise}");
            ("limits.oom_score_adj", why)
        }),
        files.map(|files| {
            let why = format!("is {files}: only root may go above {most_files}, see ulimit -Hn{by_raise}");
            ("limits.open_files", why)
        }),
    ];
    refused.into_iter().flatten().next().map_or(Ok(()), |(name, why)| {
        let hint = if around.uid == 0 { "grant that capability" } else { "start taskvisor as root" };
        Err(Wrong::new(name, format!("{name} {why}")).fault(Fault::Permission).hint(hint))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_that_root_itself_cannot_set_are_refused_with_the_capability() {
        let refused = |process_limits: ProcessLimits, capability: u32| {
            let around = Surroundings { lacks: 1 << capability, ..Surroundings::default() };
            may_be_had(process_limits, &around).map_err(|wrong| wrong.to_string())
        };
        let nice = ProcessLimits { nice: Some(-20), ..ProcessLimits::default() };
        let score = ProcessLimits { oom_score_adj: Some(-1000), ..ProcessLimits::default() };
        for (process_limits, capability, name) in
            [(nice, SYS_NICE, "CAP_SYS_NICE"), (score, SYS_RESOURCE, "CAP_SYS_RESOURCE")]
        {
            let said = refused(process_limits, capability).unwrap_err();
            assert!(
                said.contains("only root may go below") && said.ends_with(&format!(", with {name}")),
                "{said}"
            );
            assert_eq!(refused(process_limits, 0), Ok(()));
        }
        assert_eq!(refused(nice, SYS_RESOURCE), Ok(()));
    }
}
