//! Converts the settings of a kale application to settings of taskvisor.

use serde_json::{Map, Value};
use serde_yaml::{Mapping, Value as Yaml};

use super::cipher::{DEFAULT_KEY, KeyError};
use super::queue_name::{NameError, QueueNames};
use super::queues::Queue;
use super::settings::endpoint;

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
    /// The file that will hold UTIL_CRYPT_CIPHER.
    pub key_file: Option<&'a str>,
    /// The interpreter with which the application runs.
    pub python: &'a str,
    /// Absolute paths of directories in which it looks for modules first.
    pub paths: &'a [String],
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
    /// The broker needs a region.
    #[error("AWS_REGION is empty in {0}: name the region there, e.g. eu-west-1")]
    Region(String),
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
        for queue in self.queues {
            QueueNames::new(&queue.name, self.release)?;
        }
        let mut notes = Vec::new();
        let broker = self.broker(&mut notes)?;
        let pool = self.pool(&mut notes);
        let whole = mapping([("broker", broker.as_str().into()), ("pools", vec![Yaml::from(pool)].into())]);
        self.note_what_is_left(&mut notes);
        let yaml = serde_yaml::to_string(&whole).unwrap_or_default();
        Ok(Imported { broker, yaml, notes })
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.settings.get(name).and_then(Value::as_str).filter(|text| !text.is_empty())
    }

    fn broker(&self, notes: &mut Vec<String>) -> Result<String, ImportError> {
        let region = self.text("AWS_REGION").ok_or_else(|| ImportError::Region(self.module.to_owned()))?;
        // kale makes missing queues.
        let mut query = vec!["create=yes".to_owned()];
        if let Some(endpoint) = endpoint(self.settings).map_err(ImportError::Endpoint)? {
            query.push(format!("endpoint={endpoint}"));
        }
        if let Some(release) = self.release {
            query.push(format!("prefix={release}-"));
        }
        let is_off = |name: &str| self.settings.get(name).and_then(Value::as_bool) == Some(false);
        if is_off("USE_DEAD_LETTER_QUEUE") || is_off("ENABLE_DEAD_LETTER_QUEUE") {
            query.push("dead=no".into());
        }
        let key = self.text("UTIL_CRYPT_CIPHER");
        if let Some(key) = key.filter(|key| !matches!(key.len(), 16 | 24 | 32)) {
            return Err(ImportError::Key(KeyError::Length(key.len())));
        }
        match (key, self.key_file) {
            (Some(DEFAULT_KEY), Some(file)) => {
                query.push(format!("key_file={file}&default_key=yes"));
                notes.push(
                    "UTIL_CRYPT_CIPHER is kale's default key: whoever can write to a queue can run code in its workers. Set \
                     a key of your own, and take default_key=yes out of the broker"
                        .into(),
                );
            }
            (_, Some(file)) => query.push(format!("key_file={file}")),
            (None | Some(DEFAULT_KEY), None) => notes.push(
                "UTIL_CRYPT_CIPHER is kale's default key: whoever can write to a queue can run code in its workers. Set a \
                 key of your own. To go on with this one, write it to a file and add key_file=FILE&default_key=yes to the \
                 broker"
                    .into(),
            ),
            (Some(_), None) => notes.push(
                "UTIL_CRYPT_CIPHER is left out, as it is a secret: give --key-file FILE, and the key is written there with \
                 mode 600 and named in the broker"
                    .into(),
            ),
        }
        Ok(format!("sqs://{region}?{}", query.join("&")))
    }

    fn pool(&self, notes: &mut Vec<String>) -> Mapping {
        let names: Vec<Yaml> = self.queues.iter().map(|queue| queue.name.as_str().into()).collect();
        let priorities =
            self.queues.iter().map(|queue| (queue.name.as_str().into(), queue.priority.into())).collect();
        let paths = self.paths.iter().flat_map(|path| ["-p", path.as_str()]);
        let command: Vec<Yaml> =
            [self.python, "-m", "taskvisor.kale"].into_iter().chain(paths).map(Yaml::from).collect();
        let env = mapping([("set", mapping([("KALE_SETTINGS_MODULE", self.module.into())]).into())]);
        let mut pool = mapping([
            ("name", "kale".into()),
            ("workers", 1.into()),
            ("command", command.into()),
            ("queues", names.into()),
            ("order", self.order(notes).into()),
            ("queue_priorities", Yaml::Mapping(priorities)),
            ("env", env.into()),
        ]);
        if let Some(size) = self.settings.get("DIE_ON_RESIDENT_SET_SIZE_MB").and_then(Value::as_u64) {
            let recycle = mapping([("memory", format!("{size}MiB").into())]);
            pool.insert("recycle".into(), recycle.into());
        }
        pool
    }

    fn order(&self, notes: &mut Vec<String>) -> &'static str {
        let path = self.text("QUEUE_SELECTOR").unwrap_or("kale.queue_selector.ReducedLottery");
        match path.rsplit('.').next().unwrap_or_default() {
            "Random" => "random",
            "Lottery" => "lottery",
            "HighestPriorityFirst" => "highest_priority_first",
            "HighestPriorityLottery" => "highest_priority_lottery",
            "LotteryLottery" => "lottery_lottery",
            "ReducedLottery" => "reduced_lottery",
            _ => {
                notes.push(format!(
                    "QUEUE_SELECTOR is {path}, a class of the application: taskvisor runs no code of it, and takes \
                     reduced_lottery; `order` has others"
                ));
                "reduced_lottery"
            }
        }
    }

    fn note_what_is_left(&self, notes: &mut Vec<String>) {
        let other = |name: &str, usual: &str| self.text(name).filter(|path| *path != usual);
        if let Some(path) = other("QUEUE_CLASS", "kale.queue_info.TaskQueue")
            && self.release.is_none()
        {
            notes.push(format!(
                "QUEUE_CLASS is {path}: if its _decorate_name() puts a release before names, give --release NAME"
            ));
        }
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

fn mapping<const N: usize>(entries: [(&str, Yaml); N]) -> Mapping {
    entries.into_iter().map(|(name, value)| (name.into(), value)).collect()
}
