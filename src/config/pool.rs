//! A pool in the file or on the command line. Everything is optional.

use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::duration::duration;
use super::size::size;
use super::{Limits, words};
use model::{Bytes, Cron, CutOff, Leftovers, Order};

/// The settings of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Pool {
    /// The pool's name.
    pub name: Option<String>,
    /// How its workers run jobs.
    pub mode: Option<Mode>,
    /// Number of slots of the pool.
    pub workers: Option<Workers>,
    /// Jobs at a time in one worker.
    pub concurrency: Option<u32>,
    /// When to replace a worker by a new one.
    pub recycle: Option<Wear>,
    /// The queues from which it takes jobs.
    pub queues: Option<Vec<String>>,
    /// How to choose among the queues.
    pub order: Option<Order>,
    /// The priorities of its queues.
    pub queue_priorities: Option<Named<u64>>,
    /// How many jobs its queues give in a row once a lottery has drawn them.
    pub queue_turns: Option<Named<u64>>,
    /// Take only these classes.
    pub classes: Option<Vec<String>>,
    /// Do not take these classes.
    pub except_classes: Option<Vec<String>>,
    /// The command of its workers, which speak the worker protocol.
    #[serde(default, deserialize_with = "command")]
    pub command: Option<Vec<Bytes>>,
    /// A program for each job, which gets the job's data on stdin.
    #[serde(default, deserialize_with = "command")]
    pub run: Option<Vec<Bytes>>,
    /// The environment of its processes.
    pub env: Option<Env>,
    /// The working directory of its processes.
    pub cwd: Option<PathBuf>,
    /// Their file mode creation mask, octal.
    pub umask: Option<String>,
    /// Their user: a name or a number.
    pub user: Option<String>,
    /// Their group: a name or a number.
    pub group: Option<String>,
    /// Whether each job gets an empty directory.
    pub sandbox: Option<bool>,
    /// What to do with orphans of a job.
    pub leftovers: Option<Leftovers>,
    /// Time from TERM to KILL.
    #[serde(default, deserialize_with = "duration")]
    pub grace: Option<Duration>,
    /// The same for a job that another supervisor may already run.
    #[serde(default, deserialize_with = "duration")]
    pub lost_grace: Option<Duration>,
    /// What to do with jobs when the broker does not answer.
    pub when_cut_off: Option<CutOff>,
    /// Time from spawn to ready.
    #[serde(default, deserialize_with = "duration")]
    pub boot_timeout: Option<Duration>,
    /// Limits of an attempt.
    pub limits: Option<Limits>,
    /// The same for classes.
    pub class_limits: Option<Named<Limits>>,
    /// Tries after the first one.
    pub retries: Option<u32>,
    /// Wait before the first retry.
    #[serde(default, deserialize_with = "duration")]
    pub retry_delay: Option<Duration>,
    /// The longest wait before a retry.
    #[serde(default, deserialize_with = "duration")]
    pub retry_cap: Option<Duration>,
}

/// When a worker has run for long enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{jobs: N, age: DURATION, idle: DURATION, memory: SIZE}")]
pub struct Wear {
    /// After this number of jobs.
    pub jobs: Option<u64>,
    /// At this age.
    #[serde(default, deserialize_with = "duration")]
    pub age: Option<Duration>,
    /// After this time without a job.
    #[serde(default, deserialize_with = "duration")]
    pub idle: Option<Duration>,
    /// With more memory than this after a job, in bytes.
    #[serde(default, deserialize_with = "size")]
    pub memory: Option<u64>,
}

/// How workers run jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A worker runs one job after the other.
    Prefork,
    /// A process for each job.
    Fork,
    /// A worker runs many jobs at a time.
    Coroutine,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::Prefork => "prefork",
            Mode::Fork => "fork",
            Mode::Coroutine => "coroutine",
        })
    }
}

/// The number of slots, and how many of them always have a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workers {
    /// None = as many as there are slots.
    pub min: Option<u16>,
    /// None = the default.
    pub max: Option<u16>,
    /// Other numbers of slots, each from the moments of a cron line on.
    pub at: Vec<(Cron, u16)>,
    /// The time zone of these lines; None = UTC.
    pub zone: Option<String>,
}

/// Additions to the few variables that every process gets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, expecting = "{pass: [NAME], set: {NAME: VALUE}}")]
pub struct Env {
    /// Variables to pass on from the supervisor's own environment.
    pub pass: Option<Vec<String>>,
    /// Variables to set, with their values.
    pub set: Option<Named<String>>,
}

/// Names and values, in order, without duplicate names.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Named<T, K = String>(pub Vec<(K, T)>);

impl Pool {
    /// Whether the setting is set; only for settings with a flag.
    pub(super) fn says(&self, key: &str) -> bool {
        match key.split('.').next().unwrap_or(key) {
            "mode" => self.mode.is_some(),
            "workers" => self.workers.is_some(),
            "concurrency" => self.concurrency.is_some(),
            "recycle" => self.recycle.is_some(),
            "queues" => self.queues.is_some(),
            "order" => self.order.is_some(),
            "classes" => self.classes.is_some(),
            "command" => self.command.is_some(),
            "env" => self.env.is_some(),
            "cwd" => self.cwd.is_some(),
            "sandbox" => self.sandbox.is_some(),
            "grace" => self.grace.is_some(),
            "limits" => self.limits.is_some(),
            _ => false,
        }
    }

    /// These settings, and those of `other` where these have none.
    #[must_use]
    pub fn over(self, other: Pool) -> Pool {
        Pool {
            name: self.name.or(other.name),
            mode: self.mode.or(other.mode),
            workers: over(self.workers, other.workers, Workers::over),
            concurrency: self.concurrency.or(other.concurrency),
            recycle: over(self.recycle, other.recycle, Wear::over),
            queues: self.queues.or(other.queues),
            order: self.order.or(other.order),
            queue_priorities: self.queue_priorities.or(other.queue_priorities),
            queue_turns: self.queue_turns.or(other.queue_turns),
            classes: self.classes.or(other.classes),
            except_classes: self.except_classes.or(other.except_classes),
            // Both settings name the workers' program.
            run: self.run.or(other.run.filter(|_| self.command.is_none())),
            command: self.command.or(other.command),
            env: over(self.env, other.env, Env::over),
            cwd: self.cwd.or(other.cwd),
            umask: self.umask.or(other.umask),
            user: self.user.or(other.user),
            group: self.group.or(other.group),
            sandbox: self.sandbox.or(other.sandbox),
            leftovers: self.leftovers.or(other.leftovers),
            grace: self.grace.or(other.grace),
            lost_grace: self.lost_grace.or(other.lost_grace),
            when_cut_off: self.when_cut_off.or(other.when_cut_off),
            boot_timeout: self.boot_timeout.or(other.boot_timeout),
            limits: over(self.limits, other.limits, Limits::over),
            class_limits: self.class_limits.or(other.class_limits),
            retries: self.retries.or(other.retries),
            retry_delay: self.retry_delay.or(other.retry_delay),
            retry_cap: self.retry_cap.or(other.retry_cap),
        }
    }
}

fn over<T>(one: Option<T>, other: Option<T>, both: impl FnOnce(T, T) -> T) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(both(one, other)),
        (one, other) => one.or(other),
    }
}

impl Workers {
    /// `-w 4` sets the number that always run; `--min-workers 2` alone leaves the largest number to the file.
    fn over(self, other: Workers) -> Workers {
        match self.max {
            Some(_) => self,
            None => Workers { min: self.min, ..other },
        }
    }
}

impl Wear {
    fn over(self, other: Wear) -> Wear {
        let (jobs, age) = (self.jobs.or(other.jobs), self.age.or(other.age));
        Wear { jobs, age, idle: self.idle.or(other.idle), memory: self.memory.or(other.memory) }
    }
}

impl Env {
    /// Both sets of variables; if both have one, this one's value counts.
    fn over(self, other: Env) -> Env {
        let pass = over(self.pass, other.pass, |one, other| [other, one].concat());
        let set = over(self.set, other.set, |one, other| {
            let own = |name: &String| one.0.iter().any(|(set, _)| set == name);
            let rest = other.0.into_iter().filter(|(name, _)| !own(name));
            Named(rest.chain(one.0.iter().cloned()).collect())
        });
        Env { pass, set }
    }
}

impl<'de> Deserialize<'de> for Workers {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WorkersVisitor)
    }
}

struct WorkersVisitor;

impl<'de> Visitor<'de> for WorkersVisitor {
    type Value = Workers;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number up to 65535, {min: N, max: N}, or {max: N, at: {CRON: N}}")
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Workers, E> {
        let max = u16::try_from(number)
            .map_err(|_| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))?;
        Ok(Workers { max: Some(max), ..Workers::default() })
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Workers, A::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Said {
            min: Option<u16>,
            max: u16,
            at: Option<Named<u16, CronLine>>,
            zone: Option<String>,
        }
        let Said { min, max, at, zone } = Said::deserialize(MapAccessDeserializer::new(map))?;
        if min.is_none() && at.is_none() {
            return Err(A::Error::missing_field("min"));
        }
        let at =
            at.map_or(Vec::new(), |at| at.0.into_iter().map(|(line, number)| (line.0, number)).collect());
        Ok(Workers { min, max: Some(max), at, zone })
    }
}

/// A cron line as a key, so that an error has its position.
#[derive(PartialEq)]
struct CronLine(Cron);

impl<'de> Deserialize<'de> for CronLine {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(CronVisitor)
    }
}

struct CronVisitor;

impl Visitor<'_> for CronVisitor {
    type Value = CronLine;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a cron line")
    }

    fn visit_str<E: serde::de::Error>(self, line: &str) -> Result<CronLine, E> {
        let wrong = |wrong| E::custom(format!("'{line}' is no cron line: {wrong}"));
        line.parse().map(CronLine).map_err(wrong)
    }
}

impl fmt::Display for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

fn command<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Bytes>>, D::Error> {
    deserializer.deserialize_option(CommandVisitor)
}

struct CommandVisitor;

impl<'de> Visitor<'de> for CommandVisitor {
    type Value = Option<Vec<Bytes>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a program and its arguments: a list of words, or one string")
    }

    fn visit_none<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Self::Value, E> {
        let words = words::split(text).map_err(E::custom)?;
        Ok(Some(words.iter().map(|word| word.as_str().into()).collect()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        let words = Vec::<String>::deserialize(SeqAccessDeserializer::new(list))?;
        Ok(Some(words.iter().map(|word| word.as_str().into()).collect()))
    }
}

impl<'de, T: Deserialize<'de>, K: Deserialize<'de> + PartialEq + fmt::Display> Deserialize<'de>
    for Named<T, K>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(NamedVisitor(PhantomData))
    }
}

struct NamedVisitor<T, K>(PhantomData<(T, K)>);

impl<'de, T: Deserialize<'de>, K: Deserialize<'de> + PartialEq + fmt::Display> Visitor<'de>
    for NamedVisitor<T, K>
{
    type Value = Named<T, K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("names with their values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T, K>, A::Error> {
        let mut found: Vec<(K, Option<T>)> = Vec::new();
        while let Some((name, value)) = map.next_entry::<K, Option<T>>()? {
            if found.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            found.push((name, value));
        }
        // A name without a value counts as not set.
        Ok(Named(found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()))
    }
}
