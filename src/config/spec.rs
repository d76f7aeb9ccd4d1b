//! Resolves the settings of one pool.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::tz::TimeZone;

use super::class_names::classes;
use super::identity::identity;
use super::limits;
use super::paths::from_here;
use super::pool::Pool;
use super::pool_values::{Env, Mode, Named, Wear, Workers};
use super::program::{must_be_there, program};
use super::size::Size;
use super::wrong::Wrong;
use super::{Purpose, Surroundings};
use model::{
    Bytes, Class, ClassFilter, Cron, PoolSettings, ProcessLimits, QUEUE_PRIORITY_MAX, QUEUE_TURN_MAX,
    QueueName, Recycle, Retry, SizeRule, SpawnSpec, Work,
};

/// Default of jobs at a time in a worker of coroutines.
const CONCURRENCY: u32 = 100;

/// The numbers that a mode stands for.
struct Shape {
    template: bool,
    jobs_at_once: u32,
    jobs_per_life: Option<u64>,
}

/// Gives the settings of the pool, and how to make its workers.
pub(super) fn resolve_pool(
    name: &str,
    mut pool: Pool,
    purpose: Purpose,
    around: &Surroundings,
) -> Result<(PoolSettings, SpawnSpec), Wrong> {
    let default = PoolSettings::default();
    let work = work(pool.command.take(), pool.run.take())?;
    let shape = shape(&work, &pool)?;
    let (min_workers, workers) = workers(&pool, default.workers)?;
    let sizes = sizes(pool.workers.take().unwrap_or_default())?;
    let filter = ClassFilter {
        only: classes("classes", pool.classes.take())?,
        except: classes("except_classes", pool.except_classes.take())?,
    };
    let knows = match work {
        Work::Programs => {
            takes_programs(&filter)?;
            Some(Arc::new(BTreeMap::from([(Class::EXEC.into(), Default::default())])))
        }
        Work::Run(_) | Work::Command(_) => None,
    };
    let shared = shape.jobs_at_once > 1;
    let (of_attempt, process_limits) =
        limits::of_pool(&pool.limits.take().unwrap_or_default(), shared, purpose, around)?;
    let queues = queues(pool.queues.take(), default.queues)?;
    let settings = PoolSettings {
        name: name.into(),
        spec: default.spec,
        workers,
        min_workers,
        sizes,
        template: shape.template,
        jobs_at_once: shape.jobs_at_once,
        jobs_per_life: shape.jobs_per_life,
        queue_priorities: queue_priorities(pool.queue_priorities.take())?,
        queue_turns: queue_turns(pool.queue_turns.take())?,
        queues,
        order: pool.order.unwrap_or_default(),
        turn: default.turn,
        filter,
        knows,
        grace: pool.grace.unwrap_or(default.grace),
        lost_grace: pool.lost_grace.unwrap_or(default.lost_grace),
        boot_timeout: pool.boot_timeout.unwrap_or(default.boot_timeout),
        when_cut_off: pool.when_cut_off.unwrap_or_default(),
        limits: of_attempt,
        class_limits: limits::of_classes(
            pool.class_limits.take().unwrap_or_default().0.into_iter().collect(),
            shared,
        )?,
        retry: retry(&work, &pool),
        recycle: recycle(&shape, &pool)?,
    };
    Ok((settings, spec(work, pool, process_limits, purpose, around)?))
}

fn work(command: Option<Vec<Bytes>>, run: Option<Vec<Bytes>>) -> Result<Work, Wrong> {
    match (command, run) {
        (Some(_), Some(_)) => Err(Wrong::new("run", "command and run cannot both say what its workers are")
            .hint(
                "command: speaks the worker protocol; run: a program for each job, with its data on stdin",
            )),
        (Some(words), None) => Ok(Work::Command(program("command", words)?)),
        (None, Some(words)) => Ok(Work::Run(program("run", words)?)),
        (None, None) => Ok(Work::Programs),
    }
}

fn shape(work: &Work, pool: &Pool) -> Result<Shape, Wrong> {
    let mode = match (work, pool.mode) {
        (Work::Command(_), mode) => mode.unwrap_or(Mode::Prefork),
        (Work::Programs | Work::Run(_), None | Some(Mode::Fork)) => Mode::Fork,
        (Work::Programs, Some(mode)) => {
            let message =
                format!("mode {mode} needs a command: without one each job is a program of its own");
            return Err(Wrong::new("mode", message).hint("set command to workers that speak the protocol"));
        }
        (Work::Run(_), Some(mode)) => {
            let message = format!("mode {mode} does not go with run, which starts a program for each job");
            return Err(Wrong::new("mode", message).hint("leave mode out, or use command"));
        }
    };
    Ok(Shape {
        template: mode == Mode::Fork && matches!(work, Work::Command(_)),
        jobs_at_once: jobs_at_once(mode, pool.concurrency)?,
        jobs_per_life: (mode == Mode::Fork).then_some(1),
    })
}

fn jobs_at_once(mode: Mode, concurrency: Option<u32>) -> Result<u32, Wrong> {
    match (mode, concurrency) {
        (_, Some(0)) => Err(Wrong::new("concurrency", "concurrency is 0: no job could run")),
        (Mode::Coroutine, number) => Ok(number.unwrap_or(CONCURRENCY)),
        (Mode::Prefork | Mode::Fork, None | Some(1)) => Ok(1),
        (Mode::Prefork | Mode::Fork, Some(number)) => {
            let message = format!("a worker of mode {mode} runs one job at a time, not {number}");
            Err(Wrong::new("concurrency", message)
                .hint("set mode to coroutine for many jobs in one worker, or more workers"))
        }
    }
}

fn recycle(shape: &Shape, pool: &Pool) -> Result<Recycle, Wrong> {
    let Some(said) = pool.recycle.clone().filter(|said| *said != Wear::default()) else {
        return Ok(Recycle::default());
    };
    if shape.jobs_per_life.is_some() {
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
        Wear { jobs, age, idle, memory } => Ok(Recycle { jobs, age, idle, memory: memory.map(Size::bytes) }),
    }
}

fn workers(pool: &Pool, default: u16) -> Result<(Option<u16>, u16), Wrong> {
    let said = pool.workers.clone().unwrap_or_default();
    let max = said.max.unwrap_or(default);
    let wrong = |key: &'static str, message: String| Err(Wrong::new(key, message));
    match said.min {
        _ if max == 0 => wrong("workers.max", "has no workers".into()),
        Some(0) => wrong(
            "workers.min",
            "workers.min is 0: with no worker there is none to take the first job".into(),
        ),
        Some(min) if min > max => {
            wrong("workers.min", format!("workers.min is {min}, more than workers.max, which is {max}"))
        }
        min => Ok((min, max)),
    }
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

fn queues(names: Option<Vec<String>>, default: Vec<QueueName>) -> Result<Vec<QueueName>, Wrong> {
    let names = names.map_or(default, |names| names.into_iter().map(QueueName::from).collect());
    match names.is_empty() || names.iter().any(|name| name.as_str().is_empty()) {
        true => Err(Wrong::new("queues", "needs at least one queue, each with a name")),
        false => Ok(names),
    }
}

/// Checks priorities: one out of range would have no ticket in a lottery, or more than all others together.
fn queue_priorities(said: Option<Named<u64>>) -> Result<BTreeMap<QueueName, u8>, Wrong> {
    let one = |(name, said): (String, u64)| match u8::try_from(said) {
        Ok(priority @ 1..=QUEUE_PRIORITY_MAX) => Ok((QueueName::from(name), priority)),
        _ => {
            let message = format!("the priority of queue '{name}' is {said}");
            Err(Wrong::new(format!("queue_priorities.{name}"), message).hint("it is a number from 1 to 100"))
        }
    };
    said.unwrap_or_default().0.into_iter().map(one).collect()
}

/// Checks turns: a turn of none would never end, and a very long one would leave the others without jobs.
fn queue_turns(said: Option<Named<u64>>) -> Result<BTreeMap<QueueName, usize>, Wrong> {
    let one = |(name, said): (String, u64)| match usize::try_from(said) {
        Ok(turn @ 1..=QUEUE_TURN_MAX) => Ok((QueueName::from(name), turn)),
        _ => {
            let message = format!("the turn of queue '{name}' is {said}");
            Err(Wrong::new(format!("queue_turns.{name}"), message)
                .hint("it is a number of jobs from 1 to 10000"))
        }
    };
    said.unwrap_or_default().0.into_iter().map(one).collect()
}

fn takes_programs(filter: &ClassFilter) -> Result<(), Wrong> {
    let exec = Class::from(Class::EXEC);
    if filter.matches(&exec) {
        return Ok(());
    }
    let key = if filter.only.is_empty() { "except_classes" } else { "classes" };
    let message =
        format!("{key} leaves it nothing to do: without command or run it takes class {exec} alone");
    Err(Wrong::new(key, message))
}

fn retry(work: &Work, pool: &Pool) -> Retry {
    let default = match work {
        Work::Programs | Work::Run(_) => Retry::NONE,
        Work::Command(_) => Retry::CLASS,
    };
    Retry {
        retries: pool.retries.unwrap_or(default.retries),
        delay: pool.retry_delay.unwrap_or(default.delay),
        cap: pool.retry_cap.unwrap_or(default.cap),
    }
}

fn spec(
    work: Work,
    pool: Pool,
    process_limits: ProcessLimits,
    purpose: Purpose,
    around: &Surroundings,
) -> Result<SpawnSpec, Wrong> {
    let sandbox = pool.sandbox.unwrap_or_default();
    if sandbox && pool.mode == Some(Mode::Coroutine) {
        return Err(Wrong::new(
            "sandbox",
            "jobs that share a process share its directory, which none can have alone",
        )
        .hint("mode: prefork or fork"));
    }
    if sandbox && pool.cwd.is_some() {
        let message = "sandbox and cwd cannot both say where its jobs work";
        return Err(Wrong::new("sandbox", message));
    }
    let Env { pass, set } = pool.env.unwrap_or_default();
    let (env_pass, Named(env_set)) = (pass.unwrap_or_default(), set.unwrap_or_default());
    check_env(&env_pass, &env_set)?;
    let umask = pool.umask.as_deref().map(umask).transpose()?;
    let cwd = pool.cwd.map(from_here).transpose().map_err(|error| Wrong::new("cwd", error.message))?;
    let identity = match purpose {
        Purpose::Find => None,
        Purpose::Start | Purpose::Serve => identity(pool.user.as_deref(), pool.group.as_deref(), around)?,
    };
    let leftovers = pool.leftovers.unwrap_or_default();
    let spec =
        SpawnSpec { work, env_pass, env_set, cwd, umask, identity, sandbox, leftovers, process_limits };
    if purpose == Purpose::Start {
        spec.cwd.as_deref().map_or(Ok(()), must_be_a_directory)?;
        must_be_there(&spec)?;
    }
    Ok(spec)
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

fn umask(text: &str) -> Result<u32, Wrong> {
    let wrong =
        || Wrong::new("umask", format!("'{text}' is no umask")).hint("octal, from 000 to 777: \"022\"");
    let digits = text.len() <= 4 && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let bits = u32::from_str_radix(text, 8).map_err(|_| wrong())?;
    if digits && bits <= 0o777 { Ok(bits) } else { Err(wrong()) }
}

fn must_be_a_directory(dir: &Path) -> Result<(), Wrong> {
    match std::fs::metadata(dir) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Wrong::new("cwd", format!("cwd {} is no directory", dir.display()))),
        Err(error) => Err(Wrong::new("cwd", format!("cwd {} cannot be used: {error}", dir.display()))),
    }
}
