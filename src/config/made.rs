//! What the rows of a pool write, and those that check it.

use std::time::Duration;

use jiff::tz::TimeZone;

use super::class_names::classes;
use super::pool_values::{Env, Named, Wear, Workers};
use super::purpose::Reading;
use super::section::Section;
use super::size::Size;
use super::wrong::Wrong;
use model::{Cron, PoolSettings, QUEUE_PRIORITY_MAX, QUEUE_TURN_MAX, QueueName, SizeRule, SpawnSpec};

/// A pool's settings, and how to make its workers.
#[derive(Default)]
pub(super) struct Made {
    pub pool: PoolSettings,
    pub spec: SpawnSpec,
}

impl Made {
    /// Whether several jobs share a process.
    pub(crate) fn shares(&self) -> bool {
        self.pool.jobs_at_once > 1
    }
}

/// Sets when to replace a worker.
pub(super) fn recycle(said: Wear, _: &str, made: &mut Made, with: &Reading<'_>) -> Result<(), Wrong> {
    // `recycle: {}` asks for nothing, and so is no error in mode fork either.
    if said == Wear::default() {
        return Ok(());
    }
    if made.pool.jobs_per_life.is_some() {
        return Err(Wrong::new(
            "recycle",
            "each of its workers runs one job and ends: there is none to recycle",
        )
        .hint("recycle is for the modes prefork and coroutine"));
    }
    let none = |what: &str| {
        Err(Wrong::new(format!("recycle.{what}"), format!("recycle.{what} is 0: no job could run"))
            .hint("null = never"))
    };
    match said {
        Wear { jobs: Some(0), .. } => none("jobs"),
        Wear { age: Some(Duration::ZERO), .. } => none("age"),
        Wear { idle: Some(Duration::ZERO), .. } => none("idle"),
        Wear { memory: Some(Size(0)), .. } => none("memory"),
        said => said.write(&mut made.pool.recycle, with),
    }
}

/// Sets the number of slots, by the time of day too.
pub(super) fn workers(said: Workers, _: &str, made: &mut Made, _: &Reading<'_>) -> Result<(), Wrong> {
    let max = said.max.unwrap_or(made.pool.workers);
    let wrong = |key: &'static str, message: String| Err(Wrong::new(key, message));
    match said.min {
        _ if max == 0 => return wrong("workers.max", "has no workers".into()),
        Some(0) => {
            return wrong(
                "workers.min",
                "workers.min is 0: with no worker there is none to take the first job".into(),
            );
        }
        Some(min) if min > max => {
            let message = format!("workers.min is {min}, more than workers.max, which is {max}");
            return wrong("workers.min", message);
        }
        min => (made.pool.min_workers, made.pool.workers) = (min, max),
    }
    made.pool.sizes = sizes(said)?;
    Ok(())
}

/// The sizes by the time of day.
fn sizes(said: Workers) -> Result<Vec<SizeRule>, Wrong> {
    let zone = said.zone.map_or(Ok(TimeZone::UTC), |name| {
        TimeZone::get(&name).map_err(|_| {
            Wrong::new(
                "workers.zone",
                format!("workers.zone: no time zone is called '{name}' on this machine"),
            )
            .hint("names are like Europe/Vienna or UTC, and come with the package tzdata")
        })
    })?;
    let rule = |(at, workers): (Cron, u16)| match said.min.unwrap_or(1) {
        least if workers < least => {
            let message = format!("workers.at gives it {workers} at '{at}', fewer than {least}");
            Err(Wrong::new(format!("workers.at.{at}"), message)
                .hint("the least is workers.min, or 1; taskvisor pause stops a pool"))
        }
        _ => Ok(SizeRule { at, zone: zone.clone(), workers }),
    };
    said.at.into_iter().map(rule).collect()
}

pub(super) fn queues(
    said: Vec<String>,
    key: &'static str,
    made: &mut Made,
    _: &Reading<'_>,
) -> Result<(), Wrong> {
    if said.is_empty() || said.iter().any(String::is_empty) {
        return Err(Wrong::new(key, "needs at least one queue, each with a name"));
    }
    made.pool.queues = said.into_iter().map(QueueName::from).collect();
    Ok(())
}

/// Sets priorities: one out of range would have no ticket in a lottery, or more than all others together.
pub(super) fn queue_priorities(
    said: Named<u64>,
    key: &'static str,
    made: &mut Made,
    _: &Reading<'_>,
) -> Result<(), Wrong> {
    let one = |(name, said): (String, u64)| match u8::try_from(said) {
        Ok(priority @ 1..=QUEUE_PRIORITY_MAX) => Ok((QueueName::from(name), priority)),
        _ => {
            let message = format!("the priority of queue '{name}' is {said}");
            Err(Wrong::new(format!("{key}.{name}"), message).hint("it is a number from 1 to 100"))
        }
    };
    made.pool.queue_priorities = said.0.into_iter().map(one).collect::<Result<_, _>>()?;
    Ok(())
}

/// Sets turns: a turn of none would never end, and a very long one would leave the others without jobs.
pub(super) fn queue_turns(
    said: Named<u64>,
    key: &'static str,
    made: &mut Made,
    _: &Reading<'_>,
) -> Result<(), Wrong> {
    let one = |(name, said): (String, u64)| match usize::try_from(said) {
        Ok(turn @ 1..=QUEUE_TURN_MAX) => Ok((QueueName::from(name), turn)),
        _ => {
            let message = format!("the turn of queue '{name}' is {said}");
            Err(Wrong::new(format!("{key}.{name}"), message).hint("it is a number of jobs from 1 to 10000"))
        }
    };
    made.pool.queue_turns = said.0.into_iter().map(one).collect::<Result<_, _>>()?;
    Ok(())
}

/// Sets the classes that it takes.
pub(super) fn only(
    said: Vec<String>,
    key: &'static str,
    made: &mut Made,
    _: &Reading<'_>,
) -> Result<(), Wrong> {
    made.pool.filter.only = classes(key, said)?;
    Ok(())
}

/// Sets the classes that it leaves to others.
pub(super) fn except(
    said: Vec<String>,
    key: &'static str,
    made: &mut Made,
    _: &Reading<'_>,
) -> Result<(), Wrong> {
    made.pool.filter.except = classes(key, said)?;
    Ok(())
}

/// Sets the additions to the environment.
pub(super) fn env(said: Env, _: &str, made: &mut Made, _: &Reading<'_>) -> Result<(), Wrong> {
    let (pass, Named(set)) = (said.pass.unwrap_or_default(), said.set.unwrap_or_default());
    check_env(&pass, &set)?;
    (made.spec.env_pass, made.spec.env_set) = (pass, set);
    Ok(())
}

fn check_env(pass: &[String], set: &[(String, String)]) -> Result<(), Wrong> {
    for name in pass {
        check_name(name, name.strip_suffix('*').unwrap_or(name), "env.pass", "env.pass".into())?;
    }
    for (name, value) in set {
        let own = format!("env.set.{name}");
        check_name(name, name, "env.set", own.clone())?;
        if name.starts_with("TASKVISOR_") {
            let message =
                format!("{name} cannot be set: taskvisor gives the variables TASKVISOR_* to its workers");
            return Err(Wrong::new(own, message));
        }
        // A variable ends at its first zero byte.
        if value.contains('\0') {
            return Err(Wrong::new(own, format!("the value of {name} holds a zero byte")));
        }
    }
    Ok(())
}

fn without_value(name: &str) -> String {
    name.split_once('=').map_or_else(|| name.to_owned(), |(name, _)| format!("{name}=…"))
}

/// Checks the name of a variable in the map or list `key`; `bare` is the name without its star. A single star stands for
/// all. An error is placed at the setting `own`.
fn check_name(name: &str, bare: &str, key: &str, own: String) -> Result<(), Wrong> {
    let letters = bare.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
    let begins = !bare.starts_with(|first: char| first.is_ascii_digit()) && (name == "*" || !bare.is_empty());
    match letters && begins {
        true => Ok(()),
        // The text after a = may be a secret.
        false => Err(Wrong::new(own, format!("'{}' in {key} is no name of a variable", without_value(name)))
            .hint("pass is a list of names, each may end in *; set is a map from names to values")),
    }
}

pub(super) fn umask(text: String, key: &'static str, made: &mut Made, _: &Reading<'_>) -> Result<(), Wrong> {
    let wrong = || Wrong::new(key, format!("'{text}' is no umask")).hint("octal, from 000 to 777: \"022\"");
    // `from_str_radix` alone would take a sign, too.
    let digits = text.len() <= 4 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let bits = u32::from_str_radix(&text, 8).map_err(|_| wrong())?;
    if !digits || bits > 0o777 {
        return Err(wrong());
    }
    made.spec.umask = Some(bits);
    Ok(())
}
