//! Limits of attempts, from the file to their meaning.

use std::collections::BTreeMap;
use std::time::Duration;

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use serde::Deserialize;

use super::duration::duration;
use super::size::size;
use super::wrong::Wrong;
use super::{Fault, Purpose, Surroundings};
use model::{self, Class, ProcessLimits};

/// Fewest descriptors with which a worker can run: the Python package keeps some of its own above 100.
const FEWEST_FILES: u64 = 128;

/// The limits of a pool, or of one of its classes, in the file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{time: 10m, memory: 1GB, …}")]
pub struct Limits {
    /// Longest run of an attempt.
    #[serde(default, deserialize_with = "duration")]
    pub time: Option<Duration>,
    /// When the worker tells the job that its time is nearly over.
    #[serde(default, deserialize_with = "duration")]
    pub soft_time: Option<Duration>,
    /// Memory of a job's tree.
    #[serde(default, deserialize_with = "size")]
    pub memory: Option<u64>,
    /// CPU time of a job's tree.
    #[serde(default, deserialize_with = "duration")]
    pub cpu: Option<Duration>,
    /// Processes of a job's tree at a time.
    pub processes: Option<u64>,
    /// Bytes printed by an attempt.
    #[serde(default, deserialize_with = "size")]
    pub output: Option<u64>,
    /// Descriptors of a process.
    pub open_files: Option<u64>,
    /// Niceness of a process.
    pub nice: Option<i32>,
    /// Score of a process for the out-of-memory killer.
    pub oom_score_adj: Option<i32>,
}

impl Limits {
    /// These limits, and those of `other` where these have none.
    pub(super) fn over(self, other: Limits) -> Limits {
        Limits {
            time: self.time.or(other.time),
            soft_time: self.soft_time.or(other.soft_time),
            memory: self.memory.or(other.memory),
            cpu: self.cpu.or(other.cpu),
            processes: self.processes.or(other.processes),
            output: self.output.or(other.output),
            open_files: self.open_files.or(other.open_files),
            nice: self.nice.or(other.nice),
            oom_score_adj: self.oom_score_adj.or(other.oom_score_adj),
        }
    }

    /// The limits of an attempt.
    fn of_attempt(&self, of: &str, shared: bool) -> Result<model::Limits, Wrong> {
        self.are_no_nonsense(of)?;
        let alone = [("cpu", self.cpu.is_some()), ("processes", self.processes.is_some())];
        if let Some((name, _)) = alone.iter().find(|(_, said)| shared && *said) {
            let message = format!(
                "{of}{name} cannot be held: the jobs of a worker of mode coroutine share its process"
            );
            return Err(Wrong::new(format!("{of}{name}"), message).hint("use mode prefork or fork"));
        }
        let Limits { time, soft_time, memory, cpu, processes, output, .. } = *self;
        Ok(model::Limits { time, soft_time, memory, cpu, processes, output })
    }

    fn are_no_nonsense(&self, of: &str) -> Result<(), Wrong> {
        let is_zero = |time: Option<Duration>| time == Some(Duration::ZERO);
        let zeros = [
            ("time", is_zero(self.time)),
            ("soft_time", is_zero(self.soft_time)),
            ("memory", self.memory == Some(0)),
            ("cpu", is_zero(self.cpu)),
            ("processes", self.processes == Some(0)),
            ("output", self.output == Some(0)),
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

/// The limits of a pool: those of its attempts, and those of its processes.
pub(super) fn of_pool(
    limits: &Limits,
    shared: bool,
    purpose: Purpose,
    around: &Surroundings,
) -> Result<(model::Limits, ProcessLimits), Wrong> {
    let of_attempt = limits.of_attempt("limits.", shared)?;
    let Limits { open_files, nice, oom_score_adj, .. } = *limits;
    let process_limits = ProcessLimits { open_files, nice, oom_score_adj };
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
    if purpose == Purpose::Start {
        may_be_had(process_limits, around)?;
    }
    Ok((of_attempt, process_limits))
}

/// The limits of classes.
pub(super) fn of_classes(
    classes: BTreeMap<String, Limits>,
    shared: bool,
) -> Result<BTreeMap<Class, model::Limits>, Wrong> {
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
        Ok((Class::from(name), limits.of_attempt(&of, shared)?))
    };
    classes.into_iter().map(one).collect()
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
    let least_nice = getrlimit(Resource::RLIMIT_NICE).map_or(0, |(soft, _)| 20 - soft.min(40) as i32);
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
