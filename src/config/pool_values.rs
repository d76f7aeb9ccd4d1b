//! Values of the settings of pools.

use std::ffi::OsStr;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};

use super::kinds::{number, of_file, text, word};
use super::row::{Row, Setting};
use super::section::settings;
use super::size::Size;
use super::words;
use model::{Bytes, Cron, Recycle};

settings! {
    /// When a worker has run for long enough.
    #[serde(deny_unknown_fields, expecting = "{jobs: N, age: DURATION, idle: DURATION, memory: SIZE}")]
    pub struct Wear("recycle.") => Recycle {
        /// After this number of jobs.
        jobs: u64 => (at jobs) {}
        /// At this age.
        age: Duration => (at age) {}
        /// After this time without a job.
        idle: Duration => (at idle) {}
        /// With more memory than this after a job.
        memory: Size => (at memory) {}
    }
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

impl Setting for Env {
    const ROWS: &'static [Row] = &[
        Row {
            name: "pass",
            default: "[]",
            how: "`--env NAME`, several times",
            docs: "variables of the supervisor for the workers, besides [the usual ones](running-jobs.md#what-a-program-sees); `AWS_*` stands for all that begin so",
            conf: "More variables of the supervisor's environment; a * at the end stands for all that begin so (--env NAME).",
            ..Row::NONE
        },
        Row {
            name: "set",
            default: "{}",
            how: "`--env NAME=VALUE`, several times",
            docs: "variables set for them; `TASKVISOR_*` cannot be",
            conf: "Variables with their values (--env NAME=VALUE).",
            ..Row::NONE
        },
    ];

    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Option::deserialize(from)
    }

    /// `NAME` passes a variable on, `NAME=VALUE` sets one.
    fn typed(words: &[&OsStr]) -> Result<Self, String> {
        let mut env = Env::default();
        for word in words {
            match text(&[word])?.split_once('=') {
                Some((name, value)) => {
                    env.set.get_or_insert_default().0.push((name.to_owned(), value.to_owned()));
                }
                None => env.pass.get_or_insert_default().push(text(&[word])?.to_owned()),
            }
        }
        Ok(env)
    }

    /// Both sets of variables; if both have one, this one's value counts.
    fn over(self, other: Env) -> Env {
        let both = |one: Vec<String>, other: Vec<String>| [other, one].concat();
        let pass = match (self.pass, other.pass) {
            (Some(one), Some(other)) => Some(both(one, other)),
            (one, other) => one.or(other),
        };
        let set = match (self.set, other.set) {
            (Some(one), Some(other)) => {
                let own = |name: &String| one.0.iter().any(|(set, _)| set == name);
                let rest = other.0.into_iter().filter(|(name, _)| !own(name));
                Some(Named(rest.chain(one.0.iter().cloned()).collect()))
            }
            (one, other) => one.or(other),
        };
        Env { pass, set }
    }

    fn says(&self, name: &str) -> bool {
        let sets = |name: &str| self.set.iter().flat_map(|set| &set.0).any(|(set, _)| set == name);
        match name.split_once('.') {
            Some((_, variable)) => sets(variable),
            None => self.pass.is_some() || self.set.is_some(),
        }
    }
}

/// Reads the program of a worker, or of each job.
impl Setting for Vec<Bytes> {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        from.deserialize_option(CommandVisitor)
    }

    fn typed(words: &[&OsStr]) -> Result<Self, String> {
        Ok(words.iter().map(|word| word.to_os_string().into()).collect())
    }
}

impl Setting for Mode {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Option::deserialize(from)
    }

    fn typed(words: &[&OsStr]) -> Result<Self, String> {
        word(words)
    }
}

of_file!(Named<u64>: &[]);

impl Setting for Workers {
    fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Self>, D::Error> {
        Option::deserialize(from)
    }

    /// `-w 4` sets the number that always run; `--min-workers 2` alone leaves the largest number to the file.
    fn over(self, other: Workers) -> Workers {
        match self.max {
            Some(_) => self,
            None => Workers { min: self.min, ..other },
        }
    }

    fn says(&self, name: &str) -> bool {
        match name {
            "min" => self.min.is_some(),
            "max" => self.max.is_some(),
            _ => true,
        }
    }

    fn set_part(slot: &mut Option<Self>, name: &str, words: &[&OsStr]) -> Result<(), String> {
        let workers = slot.get_or_insert_with(Workers::default);
        match name {
            "min" => workers.min = Some(number(words)?),
            "max" => workers.max = Some(number(words)?),
            name => return Err(format!("there is no setting workers.{name}")),
        }
        Ok(())
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
            // serde looks for repetitions in structs alone. `explain` knows these words.
            if found.iter().any(|(known, _)| *known == name) {
                return Err(A::Error::custom(format!("duplicate field `{name}`")));
            }
            found.push((name, value));
        }
        // A name without a value counts as not set.
        Ok(Named(found.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()))
    }
}
