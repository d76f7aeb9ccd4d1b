//! Converts the settings of a kale application to settings of taskvisor.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::{Map, Value};
use serde_yaml::{Mapping, Value as Yaml};

use super::cipher::{DEFAULT_KEY, KeyError};
use super::queue_name::{NameError, QueueNames};
use super::queues::Queue;
use super::settings::endpoint;
use model::{Order, QUEUE_TURN_MAX};

/// The shortest lease, in seconds, that leaves room for the usual grace of a task.
const LEASE_MIN: u64 = 24;

/// What an application's class of queues makes of the name [`Names::PROBE`].
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Names {
    /// The queue's name in SQS.
    pub queue: String,
    /// The name of its dead-letter queue.
    pub dead: String,
}

impl Names {
    /// The name of the queue that is asked for.
    pub const PROBE: &str = "probe";
}

/// What is read from an application.
#[derive(Clone, Copy, Debug)]
pub struct Application<'a> {
    /// The module of its settings, e.g. `app.kale_settings`.
    pub module: &'a str,
    /// Its settings over kale's defaults. A value that is no JSON is its text; a function or class is its path.
    pub settings: &'a Map<String, Value>,
    /// The queues it defines.
    pub queues: &'a [Queue],
    /// The prefix of each queue's name at SQS, without the dash, if there is one.
    pub release: Option<&'a str>,
    /// What its class of queues makes of a name, if it has one that could be asked.
    pub names: Option<&'a Names>,
    /// The tags that its SQS_QUEUE_TAG_FUNCTION gives to every queue, if it is set and gives all the same.
    pub tags: Option<&'a BTreeMap<String, String>>,
    /// Why its `names` or `tags` could not be asked for, by these words.
    pub failed: &'a BTreeMap<String, String>,
    /// The file that will hold UTIL_CRYPT_CIPHER.
    pub key_file: Option<&'a str>,
    /// The interpreter with which the application runs.
    pub python: &'a str,
    /// Absolute paths of directories in which it looks for modules first.
    pub paths: &'a [String],
    /// The region that boto3 takes for an application that names none; empty = it finds none either.
    pub region: &'a str,
    /// The directory in which the application runs.
    pub cwd: &'a str,
}

/// Settings of taskvisor, and notes for a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The URL of the broker.
    pub broker: String,
    /// The settings file, with that URL.
    pub yaml: String,
    /// Sentences, each about a setting that has another meaning, or none, in taskvisor.
    pub notes: Vec<String>,
}

/// Why an application cannot be imported.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ImportError {
    /// The broker needs the key.
    #[error(
        "UTIL_CRYPT_CIPHER of {0} is a secret, and without it no task can be read: give --key-file FILE for it"
    )]
    NoKeyFile(String),
    /// Older settings for a proxy.
    #[error("{0}")]
    Endpoint(String),
    /// The cipher setting cannot be a key.
    #[error(transparent)]
    Key(KeyError),
    /// SQS would refuse a queue's name.
    #[error(transparent)]
    Name(#[from] NameError),
}

impl Application<'_> {
    /// The settings of taskvisor: one pool that takes from all queues.
    pub fn import(&self) -> Result<Imported, ImportError> {
        // First: the settings would name queues that SQS refuses.
        for queue in self.queues {
            QueueNames::new(
                &queue.name,
                self.prefix().as_deref().and_then(|prefix| prefix.strip_suffix('-')),
            )?;
        }
        let mut notes = Vec::new();
        let broker = self.broker(&mut notes)?;
        let pool = self.pool(&mut notes);
        let mut whole = mapping([("broker", broker.as_str().into())]);
        if let Some(seconds) = self.lease() {
            whole.insert("lease".into(), format!("{seconds}s").into());
        }
        whole.insert("pools".into(), vec![Yaml::from(pool)].into());
        self.note_what_is_left(&mut notes);
        let yaml = serde_yaml::to_string(&whole).unwrap_or_default();
        Ok(Imported { broker, yaml, notes })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    /// What stands before a queue's name in SQS: `r42-`.
    fn prefix(&self) -> Option<String> {
        let told = || self.names?.queue.strip_suffix(Names::PROBE).map(str::to_owned);
        self.release.map(|release| format!("{release}-")).or_else(told).filter(|prefix| !prefix.is_empty())
    }

    fn broker(&self, notes: &mut Vec<String>) -> Result<String, ImportError> {
        let region = self.text("AWS_REGION").unwrap_or(self.region);
        if region.is_empty() {
            notes.push(
                "AWS_REGION is empty and boto3 finds no region here: it is that of AWS_REGION, AWS_DEFAULT_REGION or the \
                 profile where taskvisor runs"
                    .into(),
            );
        } else if self.text("AWS_REGION").is_none() {
            notes.push(format!(
                "AWS_REGION is empty: the region {region} is what boto3 takes here, from the environment's \
                 AWS_DEFAULT_REGION or else the profile; the environment's AWS_REGION is not read by boto3"
            ));
        }
        // kale makes missing queues, and its own workers read what is put.
        let mut query = vec!["create=yes".to_owned(), "put=kale".to_owned()];
        if let Some(endpoint) = endpoint(self.settings).map_err(ImportError::Endpoint)? {
            query.push(format!("endpoint={endpoint}"));
        }
        query.extend(self.prefix().map(|prefix| format!("prefix={prefix}")));
        query.extend(self.dead(notes).map(|dead| format!("dead={dead}")));
        query.extend(self.tags(notes));
        query.extend(self.leases(notes));
        query.push(self.key(notes)?);
        Ok(format!("sqs://{region}?{}", query.join("&")))
    }

    /// The form of the names of dead-letter queues, where it is not the usual one.
    fn dead(&self, notes: &mut Vec<String>) -> Option<String> {
        let is_off = |name: &str| self.settings.get(name).and_then(Value::as_bool) == Some(false);
        if is_off("USE_DEAD_LETTER_QUEUE") || is_off("ENABLE_DEAD_LETTER_QUEUE") {
            return Some("no".into());
        }
        let Names { queue, dead } = self.names?;
        if *dead == format!("dlq-{queue}") {
            return None;
        }
        if !dead.contains(Names::PROBE) {
            notes.push(format!(
                "QUEUE_CLASS sends dead letters to {dead}, whatever their queue is: here each queue has its own, dlq-NAME"
            ));
            return None;
        }
        Some(dead.replacen(Names::PROBE, "{queue}", 1))
    }

    fn tags(&self, notes: &mut Vec<String>) -> Vec<String> {
        if let Some(path) = self.text("SQS_QUEUE_TAG_FUNCTION")
            && self.tags.is_none()
        {
            let why = self.failed.get("tags").map(|why| format!("fails ({why})"));
            notes.push(format!(
                "SQS_QUEUE_TAG_FUNCTION is {path}, which {}: queues that taskvisor makes have no tags; `tag=KEY:VALUE` in \
                 the broker's URL gives all the same",
                why.as_deref().unwrap_or("tags each queue in another way")
            ));
        }
        let (fits, odd): (Vec<_>, Vec<_>) = (self.tags.into_iter().flatten())
            .map(|(key, value)| format!("{key}:{value}"))
            // Either character would end the value in the URL.
            .partition(|tag| !tag.contains(['&', '#']));
        notes.extend(odd.iter().map(|tag| format!("the tag {tag} cannot be part of a URL, and is left out")));
        fits.iter().map(|tag| format!("tag={tag}")).collect()
    }

    /// The part of the URL for UTIL_CRYPT_CIPHER. There is always one: without a key, all tasks would be poison.
    fn key(&self, notes: &mut Vec<String>) -> Result<String, ImportError> {
        let key = self.text("UTIL_CRYPT_CIPHER").unwrap_or(DEFAULT_KEY);
        if !matches!(key.len(), 16 | 24 | 32) {
            return Err(ImportError::Key(KeyError::Length(key.len())));
        }
        let file = self.key_file.map(|file| format!("key_file={file}"));
        if key != DEFAULT_KEY {
            return file.ok_or_else(|| ImportError::NoKeyFile(self.module.to_owned()));
        }
        notes.push(
            "UTIL_CRYPT_CIPHER is kale's default key: whoever can write to a queue can run code in its workers. Set a key \
             of your own, and take default_key=yes out of the broker"
                .into(),
        );
        Ok(file.into_iter().chain(["default_key=yes".to_owned()]).collect::<Vec<_>>().join("&"))
    }

    /// The shortest visibility timeout of the queues in seconds, at least [`LEASE_MIN`].
    fn lease(&self) -> Option<u64> {
        self.queues.iter().map(|queue| queue.visibility_timeout_sec.max(LEASE_MIN)).min()
    }

    /// The part of the URL for queues with a longer visibility timeout.
    fn leases(&self, notes: &mut Vec<String>) -> Vec<String> {
        let shortest = self.lease().unwrap_or_default();
        let short = self.queues.iter().filter(|queue| queue.visibility_timeout_sec < LEASE_MIN);
        notes.extend(short.map(|Queue { name, visibility_timeout_sec, .. }| {
            format!(
                "the visibility_timeout_sec of {name} is {visibility_timeout_sec}: its messages are hidden for {shortest} s, as \
                 a task must be dead before; the time is renewed while it runs, and matters only when a whole host dies"
            )
        }));
        let own = self.queues.iter().filter(|queue| queue.visibility_timeout_sec > shortest);
        own.map(|queue| format!("lease={}:{}s", queue.name, queue.visibility_timeout_sec)).collect()
    }

    fn pool(&self, notes: &mut Vec<String>) -> Mapping {
        let names: Vec<Yaml> = self.queues.iter().map(|queue| queue.name.as_str().into()).collect();
        let order = self.order(notes);
        let by_queue = |value: fn(&Queue) -> u64| -> Yaml {
            let all = self.queues.iter().map(|queue| (queue.name.as_str().into(), value(queue).into()));
            Yaml::Mapping(all.collect())
        };
        let paths = self.paths.iter().flat_map(|path| ["-p", path.as_str()]);
        let command: Vec<Yaml> =
            [self.python, "-m", "taskvisor.kale"].into_iter().chain(paths).map(Yaml::from).collect();
        let env = mapping([("set", mapping([("KALE_SETTINGS_MODULE", self.module.into())]).into())]);
        let mut pool = mapping([
            ("name", "kale".into()),
            ("workers", 1.into()),
            ("command", command.into()),
            ("queues", names.into()),
            ("order", order.as_str().into()),
            ("queue_priorities", by_queue(|queue| queue.priority)),
            ("cwd", self.cwd.into()),
            ("env", env.into()),
        ]);
        // With these each queue keeps its share: a worker of kale stays with the queue that it has drawn for a while.
        if order.draws() {
            pool.insert("queue_turns".into(), by_queue(turn));
        }
        if let Some(size) = self.settings.get("DIE_ON_RESIDENT_SET_SIZE_MB").and_then(Value::as_u64) {
            let recycle = mapping([("memory", format!("{size}MiB").into())]);
            pool.insert("recycle".into(), recycle.into());
        }
        pool
    }

    fn order(&self, notes: &mut Vec<String>) -> Order {
        let path = self.text("QUEUE_SELECTOR").unwrap_or("kale.queue_selector.ReducedLottery");
        match path.rsplit('.').next().unwrap_or_default() {
            "Random" => Order::Random,
            "Lottery" => Order::Lottery,
            "HighestPriorityFirst" => Order::HighestPriorityFirst,
            "HighestPriorityLottery" => Order::HighestPriorityLottery,
            "LotteryLottery" => Order::LotteryLottery,
            "ReducedLottery" => Order::ReducedLottery,
            _ => {
                notes.push(format!(
                    "QUEUE_SELECTOR is {path}, a class of the application: taskvisor runs no code of it, and takes \
                     reduced_lottery; `order` has others"
                ));
                Order::ReducedLottery
            }
        }
    }

    fn note_what_is_left(&self, notes: &mut Vec<String>) {
        let other = |name: &str, usual: &str| self.text(name).filter(|path| *path != usual);
        let is_told = self.names.is_some_and(|names| names.queue.ends_with(Names::PROBE));
        if let Some(path) = other("QUEUE_CLASS", "kale.queue_info.TaskQueue")
            && !is_told
        {
            let release = "if its _decorate_name() puts a release before names, give --release NAME";
            match (self.failed.get("names"), self.release) {
                (Some(why), _) => notes.push(format!(
                    "QUEUE_CLASS is {path}, which could not be asked for the names of queues ({why}): these are as in the file \
                     but for a --release, and those of dead letters are kale's own; have it import, or {release}"
                )),
                (None, None) => notes.push(format!("QUEUE_CLASS is {path}: {release}")),
                (None, Some(_)) => {}
            }
        }
        if self.settings.contains_key("RESET_TIMEOUT_THRESHOLD") {
            notes.push(
                "RESET_TIMEOUT_THRESHOLD is left out: messages that no worker has begun go back at once"
                    .into(),
            );
        }
        notes.push(
            "workers see a short list of variables (PATH, HOME, LANG and the like): name what the application needs \
             besides in `env.pass`"
                .into(),
        );
        if let Some(path) = other("COMPRESSOR", "zlib.compress") {
            notes.push(format!(
                "COMPRESSOR is {path}: taskvisor reads and writes bodies compressed by zlib, and takes others for poison"
            ));
        }
        for name in ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"] {
            if self.text(name).is_some() {
                notes.push(format!(
                    "{name} is left out, as it is a secret: taskvisor has its credentials from AWS's usual chain \
                     (environment, files, role of the host)"
                ));
            }
        }
    }
}

/// How many tasks one of kale's workers takes from a queue that it has chosen.
fn turn(queue: &Queue) -> u64 {
    queue.num_iterations.saturating_mul(queue.batch_size).min(QUEUE_TURN_MAX as u64)
}

fn mapping<const N: usize>(entries: [(&str, Yaml); N]) -> Mapping {
    entries.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
