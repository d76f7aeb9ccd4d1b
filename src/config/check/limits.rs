//! Rules about the limits of a pool.

use std::path::Path;
use std::time::Duration;

use super::subject::{Advice, Pool, advice};
use crate::format_duration;
use model::{Limits, Work, size};

type Rule = fn(&Pool) -> Option<Advice>;

/// One row for each rule.
pub(super) const RULES: [(&str, Rule); 8] = [
    ("soft-time-late", soft_time_late),
    ("soft-time-unheard", soft_time_unheard),
    ("cpu-not-reached", cpu_not_reached),
    ("memory-too-small", memory_too_small),
    ("memory-not-reached", memory_not_reached),
    ("recycle-not-reached", recycle_not_reached),
    ("lone-shell", lone_shell),
    ("class-not-taken", class_not_taken),
];

/// An interpreter without an application has this much memory at the start.
const APPLICATION: u64 = 8 << 20;
/// A shell has this much memory.
const PROGRAM: u64 = 1 << 20;

const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// The limits of the pool, or of one of its classes: their full name, and all limits in force there.
struct Said {
    name: String,
    limits: Limits,
}

/// All limits, those of the pool first.
fn said<'a>(pool: &'a Pool<'a>) -> impl Iterator<Item = Said> + 'a {
    let own = pool.settings.limits;
    let classes = pool
        .settings
        .class_limits
        .iter()
        .map(move |(class, limits)| Said { name: format!("class_limits.{class}"), limits: limits.or(own) });
    std::iter::once(Said { name: "limits".into(), limits: own }).chain(classes)
}

fn soft_time_late(pool: &Pool) -> Option<Advice> {
    let late = |limits: Limits| limits.soft_time.zip(limits.time).filter(|(soft, time)| soft >= time);
    let (Said { name, .. }, (soft, time)) =
        said(pool).find_map(|said| late(said.limits).map(|times| (said, times)))?;
    let (soft, time) = (format_duration(soft), format_duration(time));
    let message =
        format!("by {name} and limits a job ends after {time}, and is told of that after {soft}: never");
    let hint = format!("say {name}.soft_time too, or {name}.time");
    Some(advice(format!("{name}.soft_time"), message, hint))
}

/// Only a worker can tell its job about the soft time.
fn soft_time_unheard(pool: &Pool) -> Option<Advice> {
    let Said { name, .. } = said(pool).find(|said| said.limits.soft_time.is_some())?;
    let message = format!("{name}.soft_time has no effect: a program is told nothing before its TERM");
    let hint = "leave it out; a program that catches TERM has the grace to end well";
    (!matches!(pool.spec.work, Work::Command(_))).then(|| advice(format!("{name}.soft_time"), message, hint))
}

fn cpu_not_reached(pool: &Pool) -> Option<Advice> {
    let cpus = u32::try_from(pool.whole.facts.cpus).unwrap_or(u32::MAX);
    // A job that keeps all processors busy takes their number of CPU seconds each second.
    let most = |limits: Limits| limits.time.map_or(Duration::MAX, |time| time.saturating_mul(cpus));
    let Said { name, limits } =
        said(pool).find(|said| said.limits.cpu.is_some_and(|cpu| cpu >= most(said.limits)))?;
    let (cpu, time) = (format_duration(limits.cpu?), format_duration(limits.time?));
    let message = format!(
        "{name}.cpu of {cpu} is never reached: a job ends after {time}, and there are {cpus} processors"
    );
    Some(advice(format!("{name}.cpu"), message, "set less of it, or leave it out"))
}

fn memory_too_small(pool: &Pool) -> Option<Advice> {
    let least = match pool.spec.work {
        Work::Command(_) => APPLICATION,
        Work::Programs | Work::Run(_) => PROGRAM,
    };
    let Said { name, limits } =
        said(pool).find(|said| said.limits.memory.is_some_and(|memory| memory < least))?;
    let memory = size(limits.memory?);
    let message = format!("{name}.memory is {memory}: hardly anything runs with less than {}", size(least));
    Some(advice(format!("{name}.memory"), message, "is its unit right?"))
}

fn memory_not_reached(pool: &Pool) -> Option<Advice> {
    let machine = pool.whole.facts.memory?;
    let Said { name, limits } =
        said(pool).find(|said| said.limits.memory.is_some_and(|memory| memory >= machine))?;
    let memory = size(limits.memory?);
    let message = format!(
        "{name}.memory of {memory} is never reached: the machine, or the cgroup, has {}",
        size(machine)
    );
    Some(advice(format!("{name}.memory"), message, "set what one job may take beside the others"))
}

fn recycle_not_reached(pool: &Pool) -> Option<Advice> {
    let (recycle, limit) = (pool.settings.recycle.memory?, pool.settings.limits.memory?);
    let (recycle_text, limit_text) = (size(recycle), size(limit));
    let message = format!(
        "no worker is recycled at {recycle_text}: it is killed, with its job, at limits.memory, which is {limit_text}"
    );
    (recycle >= limit)
        .then(|| advice("recycle.memory", message, "set recycle.memory well below limits.memory"))
}

fn lone_shell(pool: &Pool) -> Option<Advice> {
    let Work::Run(words) = &pool.spec.work else { return None };
    let shell = words.first().and_then(|word| Path::new(word.as_os_str()).file_name()?.to_str())?;
    let Said { name, .. } = said(pool).find(|said| said.limits.processes == Some(1))?;
    let message = format!("{name}.processes is 1, which {shell} is itself: whatever it starts ends the job");
    SHELLS.contains(&shell).then(|| {
        advice(format!("{name}.processes"), message, "set 2 or more, or run the program without a shell")
    })
}

fn class_not_taken(pool: &Pool) -> Option<Advice> {
    let knows = |class| pool.settings.knows.as_ref().is_none_or(|known| known.contains_key(class));
    let taken = |class| pool.settings.filter.matches(class) && knows(class);
    let class = pool.settings.class_limits.keys().find(|class| !taken(class))?;
    let message = format!("class_limits.{class} has no effect: the pool takes no job of that class");
    Some(advice(format!("class_limits.{class}"), message, "is it misspelled, or another pool's?"))
}
