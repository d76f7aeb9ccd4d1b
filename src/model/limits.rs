//! Limits of an attempt, and the excess of one that took more.

use std::time::Duration;

/// Limits of an attempt; None = unlimited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time limit of an attempt.
    pub time: Option<Duration>,
    /// After this time the worker tells the job that its time is nearly over.
    pub soft_time: Option<Duration>,
    /// Memory of its process tree, in bytes.
    pub memory: Option<u64>,
    /// CPU time of its process tree.
    pub cpu: Option<Duration>,
    /// Processes of its tree at a time.
    pub processes: Option<u64>,
    /// Bytes that the job may print.
    pub output: Option<u64>,
}

impl Limits {
    /// These limits, and those of `other` where these have none.
    #[must_use]
    pub fn or(self, other: Limits) -> Limits {
        Limits {
            time: self.time.or(other.time),
            soft_time: self.soft_time.or(other.soft_time),
            memory: self.memory.or(other.memory),
            cpu: self.cpu.or(other.cpu),
            processes: self.processes.or(other.processes),
            output: self.output.or(other.output),
        }
    }

    /// The limits of a job that shares its process with others. The memory of one job cannot be measured there, so only
    /// the `pool` limits the memory of all.
    #[must_use]
    pub fn shared(self, pool: Limits) -> Limits {
        Limits { memory: pool.memory, cpu: None, processes: None, ..self }
    }

    /// Whether the process tree must be measured for them.
    pub fn are_of_tree(&self) -> bool {
        self.memory.is_some() || self.cpu.is_some() || self.processes.is_some()
    }
}

/// The kernel's limits for the cgroup of a life; None = unlimited.
///
/// Limits are kept by looking. The kernel holds what comes between two looks, or while nobody looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Memory, in bytes. If a process needs more, the kernel kills the whole cgroup.
    pub memory: Option<u64>,
    /// Processes and threads. Creating more fails.
    pub tasks: Option<u64>,
}

/// How many threads a job may have beyond its processes, far more than it needs: a fork bomb makes more of both.
const THREADS: u64 = 1000;
const THREADS_EACH: u64 = 32;

impl Bounds {
    /// The bounds that back these limits. For processes the bound is well beyond the limit, so that the job ends for
    /// exceeding the limit, and not by a fork that fails. The kernel counts threads too, which the limit does not.
    pub fn of(limits: &Limits) -> Bounds {
        let tasks = |processes: u64| processes.saturating_mul(THREADS_EACH).saturating_add(THREADS);
        Bounds { memory: limits.memory, tasks: limits.processes.map(tasks) }
    }
}

/// An exceeded limit, with the larger value that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// It ran longer than its time limit.
    Time(Duration, Duration),
    /// Its tree used more memory, in bytes.
    Memory(u64, u64),
    /// The kernel killed it at its limit of memory.
    OutOfMemory(u64),
    /// Its tree used more CPU time.
    Cpu(Duration, Duration),
    /// Its tree had more processes.
    Processes(u64, u64),
    /// It printed more bytes.
    Output(u64, u64),
    /// Its process was stopped by a signal for longer than counts towards no limit.
    Stopped(Duration, Duration),
}

impl Excess {
    /// The name of the limit, for statistics.
    pub fn name(self) -> &'static str {
        match self {
            Excess::Time(..) => "time limit",
            Excess::Memory(..) | Excess::OutOfMemory(_) => "memory limit",
            Excess::Cpu(..) => "cpu limit",
            Excess::Processes(..) => "process limit",
            Excess::Output(..) => "output limit",
            Excess::Stopped(..) => "stopped",
        }
    }

    /// The word for metrics.
    pub fn word(self) -> &'static str {
        match self {
            Excess::Time(..) => "time",
            Excess::Memory(..) | Excess::OutOfMemory(_) => "memory",
            Excess::Cpu(..) => "cpu",
            Excess::Processes(..) => "processes",
            Excess::Output(..) => "output",
            Excess::Stopped(..) => "stopped",
        }
    }

    /// Whether the excess is a danger to others, so that it is killed at once. For other excesses the job is asked to
    /// end, and has the grace for it.
    pub fn is_urgent(self) -> bool {
        match self {
            Excess::Memory(..) | Excess::OutOfMemory(_) | Excess::Processes(..) => true,
            // It would not hear that it is to end.
            Excess::Stopped(..) => true,
            Excess::Time(..) | Excess::Cpu(..) | Excess::Output(..) => false,
        }
    }

    /// One line for people.
    pub fn message(self) -> String {
        match self {
            Excess::Time(limit, ran) => {
                format!("it ran for {}; its limit is {}", seconds(ran), seconds(limit))
            }
            Excess::Memory(limit, taken) => {
                format!("its processes took {} of memory; the limit is {}", size(taken), size(limit))
            }
            Excess::OutOfMemory(limit) => {
                format!("the kernel ended it at its limit of {} of memory", size(limit))
            }
            Excess::Cpu(limit, used) => {
                format!("its processes used {} of CPU time; the limit is {}", seconds(used), seconds(limit))
            }
            Excess::Processes(limit, found) => {
                format!("it had {found} processes at a time, or more; the limit is {limit}")
            }
            Excess::Output(limit, printed) => {
                format!("it printed {}; the limit is {}", size(printed), size(limit))
            }
            Excess::Stopped(most, stood) => format!(
                "its process was stopped by a signal (SIGSTOP) for {}; up to {} count towards no limit",
                seconds(stood),
                seconds(most)
            ),
        }
    }
}

fn seconds(time: Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    format!("{} s", text.trim_end_matches('0').trim_end_matches('.'))
}

/// A number of bytes for people.
pub fn size(bytes: u64) -> String {
    const UNITS: [(&str, u64); 3] = [("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)];
    match UNITS.iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{:.1} {name}", bytes as f64 / *unit as f64).replace(".0 ", " "),
        None => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_bound_is_the_limit_and_task_bound_leaves_room_for_threads() {
        let limits = Limits { memory: Some(7), processes: Some(10), ..Limits::default() };
        assert_eq!(Bounds::of(&limits), Bounds { memory: Some(7), tasks: Some(1320) });
        assert_eq!(Bounds::of(&Limits::default()), Bounds::default());
        let most = Limits { processes: Some(u64::MAX), ..Limits::default() };
        assert_eq!(Bounds::of(&most).tasks, Some(u64::MAX));
    }

    #[test]
    fn excess_shows_the_limit_and_the_measured_value() {
        let second = Duration::from_secs(1);
        for (excess, message) in [
            (Excess::Time(5 * second, second * 51 / 10), "it ran for 5.1 s; its limit is 5 s"),
            (
                Excess::Memory(512_000_000, 640_400_000),
                "its processes took 640.4 MB of memory; the limit is 512 MB",
            ),
            (Excess::Cpu(second * 10, second * 20), "its processes used 20 s of CPU time; the limit is 10 s"),
            (Excess::Processes(9, 10), "it had 10 processes at a time, or more; the limit is 9"),
            (Excess::Output(999, 1_500), "it printed 1.5 kB; the limit is 999 bytes"),
        ] {
            assert_eq!(excess.message(), message);
        }
    }

    #[test]
    fn first_source_of_a_limit_wins() {
        let job = Limits { cpu: Some(Duration::from_secs(1)), ..Limits::default() };
        let pool = Limits { cpu: Some(Duration::from_secs(9)), memory: Some(7), ..Limits::default() };
        let both = job.or(pool);
        assert_eq!((both.cpu, both.memory, both.output), (job.cpu, Some(7), None));
        let class = Limits { memory: Some(5), output: Some(3), ..job };
        assert_eq!(
            class.or(pool).shared(pool),
            Limits { memory: Some(7), output: Some(3), ..Limits::default() }
        );
    }
}
