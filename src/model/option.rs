//! Options: values set in the store itself, for every supervisor on it, while they run.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{QueueName, format_duration, parse_duration};

word_enum! {
    /// An option of the store, for all supervisors or for one queue.
    #[derive(PartialOrd, Ord, Hash)]
    pub enum OptionName {
        /// How long a job whose lease ran out waits for its holder before another may run it.
        Grace => "grace",
        /// How long complete and canceled jobs are kept.
        KeepComplete => "keep_complete",
        /// How many complete and canceled jobs are kept.
        KeepCompleteCount => "keep_complete_count",
        /// How long failed jobs are kept.
        KeepFailed => "keep_failed",
        /// How many jobs of a queue run at a time, on all hosts together.
        MaxConcurrency => "max_concurrency",
    }
}

impl OptionName {
    /// The value that holds until another one is set.
    pub fn default_value(self) -> OptionValue {
        const DAY: u64 = 24 * 3600;
        match self {
            OptionName::Grace => OptionValue::Length(Duration::from_secs(10)),
            OptionName::KeepComplete => OptionValue::Length(Duration::from_secs(7 * DAY)),
            OptionName::KeepCompleteCount => OptionValue::Count(50_000),
            OptionName::KeepFailed => OptionValue::Length(Duration::from_secs(30 * DAY)),
            OptionName::MaxConcurrency => OptionValue::Count(0),
        }
    }

    /// The effect of the option, in a sentence.
    pub fn does(self) -> &'static str {
        match self {
            OptionName::Grace => {
                "how long a job whose lease ran out waits for its holder before another may run it"
            }
            OptionName::KeepComplete => "how long complete and canceled jobs are kept; 0 = for ever",
            OptionName::KeepCompleteCount => "how many complete and canceled jobs are kept; 0 = all",
            OptionName::KeepFailed => "how long failed jobs are kept; 0 = for ever",
            OptionName::MaxConcurrency => {
                "how many jobs of a queue run at a time, on all hosts together; 0 = no limit"
            }
        }
    }

    /// Whether the option may be set for a single queue.
    pub fn is_of_queues(self) -> bool {
        match self {
            OptionName::Grace | OptionName::MaxConcurrency => true,
            OptionName::KeepComplete | OptionName::KeepCompleteCount | OptionName::KeepFailed => false,
        }
    }

    /// Reads a value for the option.
    ///
    /// ```
    /// use taskvisor_model::{OptionName, OptionValue};
    /// assert_eq!(OptionName::MaxConcurrency.read("5"), Ok(OptionValue::Count(5)));
    /// assert!(OptionName::Grace.read("5").is_err());
    /// ```
    pub fn read(self, text: &str) -> Result<OptionValue, String> {
        let value = match self.default_value() {
            OptionValue::Length(_) => parse_duration(text).map(OptionValue::Length),
            OptionValue::Count(_) => {
                text.parse().map(OptionValue::Count).map_err(|_| format!("'{text}' is no number like 5"))
            }
        };
        value.map_err(|why| format!("option {self}: {why}"))
    }
}

impl FromStr for OptionName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        OptionName::ALL.into_iter().find(|name| name.as_str() == text).ok_or_else(|| {
            let names: Vec<_> = OptionName::ALL.into_iter().map(OptionName::as_str).collect();
            format!("no option is called '{text}'; there are {}", names.join(", "))
        })
    }
}

/// The value of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionValue {
    /// A number of things.
    Count(u64),
    /// A length of time.
    Length(Duration),
}

impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Count(count) => write!(f, "{count}"),
            OptionValue::Length(length) => f.write_str(&format_duration(*length)),
        }
    }
}

/// Options as they are kept in a file: `option dump` writes it, `option load` reads it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Options {
    /// Options of all queues, by name.
    #[serde(default)]
    pub all: BTreeMap<String, String>,
    /// Options of single queues, by queue and name.
    #[serde(default)]
    pub queues: BTreeMap<QueueName, BTreeMap<String, String>>,
    /// What else is set in a Redis, by the names in `ql:config`: the options of qless that have no other name here, and
    /// those of other programs.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, String>,
}

/// The values that were set, parsed and checked.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OptionsInForce(BTreeMap<(Option<QueueName>, OptionName), OptionValue>);

impl OptionsInForce {
    /// Parses all options that every store knows; the first one that is invalid is refused in words.
    pub fn read(options: &Options) -> Result<Self, String> {
        let mut read = OptionsInForce::default();
        if let Some(other) = options.others.keys().next() {
            return Err(format!(
                "option {other} is of qless and its clients: it means something in Redis only"
            ));
        }
        for (name, value) in &options.all {
            read.set(None, name.parse()?, value)?;
        }
        for (queue, values) in &options.queues {
            for (name, value) in values {
                read.set(Some(queue.clone()), name.parse()?, value)?;
            }
        }
        Ok(read)
    }

    /// Sets an option, of one queue or of all.
    pub fn set(&mut self, queue: Option<QueueName>, name: OptionName, value: &str) -> Result<(), String> {
        if queue.is_some() && !name.is_of_queues() {
            return Err(format!("option {name} is for all queues, not for one"));
        }
        self.0.insert((queue, name), name.read(value)?);
        Ok(())
    }

    /// The values that were set, in order: first those for all queues.
    pub fn iter(&self) -> impl Iterator<Item = (Option<&QueueName>, OptionName, OptionValue)> {
        self.0.iter().map(|((queue, name), value)| (queue.as_ref(), *name, *value))
    }

    /// The value in force for a queue, or for all.
    pub fn value(&self, queue: Option<&QueueName>, name: OptionName) -> OptionValue {
        let of_queue = queue.and_then(|queue| self.0.get(&(Some(queue.clone()), name)));
        of_queue.or_else(|| self.0.get(&(None, name))).copied().unwrap_or(name.default_value())
    }

    /// A duration in force for a queue, or for all.
    pub fn length(&self, queue: Option<&QueueName>, name: OptionName) -> Duration {
        match self.value(queue, name) {
            OptionValue::Length(length) => length,
            // Never met: the values of an option are all of one kind.
            OptionValue::Count(seconds) => Duration::from_secs(seconds),
        }
    }

    /// A number in force for a queue, or for all.
    pub fn count(&self, queue: Option<&QueueName>, name: OptionName) -> u64 {
        match self.value(queue, name) {
            OptionValue::Count(count) => count,
            OptionValue::Length(length) => length.as_secs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_of_a_queue_falls_back_to_the_global_one_and_the_default() {
        let mut options = OptionsInForce::default();
        let mail = QueueName::from("mail");
        let most = |options: &OptionsInForce, queue| options.count(queue, OptionName::MaxConcurrency);
        assert_eq!(most(&options, Some(&mail)), 0);
        options.set(None, OptionName::MaxConcurrency, "9").unwrap();
        assert_eq!(most(&options, Some(&mail)), 9);
        options.set(Some(mail.clone()), OptionName::MaxConcurrency, "2").unwrap();
        assert_eq!((most(&options, Some(&mail)), most(&options, None)), (2, 9));
    }

    #[test]
    fn invalid_options_are_refused_with_the_reason() {
        let read = |text: &str| OptionsInForce::read(&serde_json::from_str(text).unwrap()).unwrap_err();
        assert_eq!(
            read(r#"{"all": {"grace": "soon"}}"#),
            "option grace: 'soon' is no duration like 250ms, 10s, 1m30s, 2h or 1d"
        );
        assert_eq!(
            read(r#"{"queues": {"mail": {"keep_failed": "1d"}}}"#),
            "option keep_failed is for all queues, not for one"
        );
        assert!(
            read(r#"{"others": {"stats-history": "1"}}"#)
                .starts_with("option stats-history is of qless and its clients")
        );
        assert!(
            read(r#"{"all": {"heart": "1"}}"#).starts_with("no option is called 'heart'; there are grace,")
        );
    }

    #[test]
    fn each_default_option_round_trips() {
        for name in OptionName::ALL {
            assert_eq!(name.read(&name.default_value().to_string()), Ok(name.default_value()));
            assert_eq!(name.as_str().parse(), Ok(name));
        }
    }
}
