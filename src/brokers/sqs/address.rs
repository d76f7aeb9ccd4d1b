//! Settings in the URL of an SQS broker: `sqs://REGION?endpoint=…&create=yes`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use broker::yes_or_no;
use broker::{Address, Error};
use model::parse_duration;

/// The longest time for which SQS keeps a received message invisible: 12 hours, minus the time of a request.
pub(super) const LONGEST: Duration = Duration::from_secs(12 * 3600 - 10);

/// The form of its URLs.
pub(super) const FORM: &str = "sqs://REGION[?endpoint=http://HOST:PORT]";

/// The parts of a URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The region of AWS, e.g. `eu-west-1`; empty = the one that the environment or the profile names.
    pub region: String,
    /// The address of the service, if it is not AWS's own.
    pub endpoint: Option<String>,
    /// A prefix of each queue's name in SQS, e.g. `r42-` for the queues of a release.
    pub prefix: String,
    /// The name of a queue's dead-letter queue, with `{name}` for the queue's name in SQS, and `{queue}` for that without
    /// the prefix; None = there are none.
    pub dead: Option<String>,
    /// Whether to make missing queues.
    pub create: bool,
    /// Whether messages may name programs to run.
    pub exec: bool,
    /// The class of messages that are neither JSON nor tasks of kale.
    pub text_class: Option<String>,
    /// The file with the key of kale's tasks.
    pub key_file: Option<PathBuf>,
    /// Whether to accept kale's well-known default key; without a `key_file` it is the key.
    pub default_key: bool,
    /// Tags of the queues that are made: key and value.
    pub tags: BTreeMap<String, String>,
    /// Leases of queues that keep their messages invisible for longer than the supervisor's lease, by their names here.
    pub leases: BTreeMap<String, Duration>,
    /// Whether new jobs are written as tasks of kale.
    pub puts_tasks: bool,
}

impl Place {
    /// The parts of a broker's URL.
    pub(super) fn of(at: &Address) -> Result<Place, Error> {
        Place::read(at.reveal()).map_err(|wrong| Error::Url(format!("the broker 'sqs:' {wrong}")))
    }

    /// Reads a URL; `Err` says what is wrong with it, as the end of "the broker 'sqs:' …".
    pub(super) fn read(url: &str) -> Result<Place, &'static str> {
        let rest = url.strip_prefix("sqs://").ok_or("needs // after it, and a region such as eu-west-1")?;
        let (region, query) = rest.split_once('?').unwrap_or((rest, ""));
        let region = region.trim_end_matches('/');
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            return Err("has no region after its //: it is a name such as eu-west-1");
        }
        let dead = Some("dlq-{name}".into());
        let mut place = Place { region: region.to_owned(), dead, ..Place::default() };
        query.split('&').filter(|pair| !pair.is_empty()).try_for_each(|pair| place.set(pair))?;
        // Any name shows it, as the form is the same for all queues.
        if place.dead_letters("queue") == Some(place.name("queue")) {
            return Err("sends dead letters to the queue they come from");
        }
        match place.puts_tasks && !place.reads_tasks() {
            true => Err("needs a key_file for its put=kale: kale encrypts its messages"),
            false => Ok(place),
        }
    }

    fn set(&mut self, pair: &str) -> Result<(), &'static str> {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let yes = || yes_or_no(value).ok_or("takes yes or no for create, exec and default_key");
        match name {
            "endpoint" if value.starts_with("http://") || value.starts_with("https://") => {
                self.endpoint = Some(value.trim_end_matches('/').to_owned());
            }
            "endpoint" => return Err("has an endpoint that is no http:// or https:// URL"),
            "prefix" => self.prefix = value.to_owned(),
            "dead" if value == "no" => self.dead = None,
            "dead" if value.contains("{name}") || value.contains("{queue}") => {
                self.dead = Some(value.to_owned())
            }
            "dead" => return Err("has a name for dead letters without {name} or {queue} in it"),
            "create" => self.create = yes()?,
            "exec" => self.exec = yes()?,
            "text_class" if !value.is_empty() => self.text_class = Some(value.to_owned()),
            "key_file" if !value.is_empty() => self.key_file = Some(value.into()),
            "default_key" => self.default_key = yes()?,
            "tag" => self.tag(value)?,
            "lease" => self.lease_of(value)?,
            "put" if value == "kale" || value == "json" => self.puts_tasks = value == "kale",
            "put" => return Err("takes json or kale for put"),
            _ => {
                return Err(
                    "knows endpoint, prefix, dead, create, exec, text_class, key_file, default_key, put, tag \
                            and lease after its ?, and no others",
                );
            }
        }
        Ok(())
    }

    /// AWS allows 50 tags, with keys of 128 and values of 256 characters.
    fn tag(&mut self, value: &str) -> Result<(), &'static str> {
        let (key, value) = value.split_once(':').ok_or("takes KEY:VALUE for tag")?;
        if key.is_empty() || key.chars().count() > 128 || value.chars().count() > 256 {
            return Err("has a tag whose key has not 1 to 128 characters, or whose value has over 256");
        }
        self.tags.insert(key.to_owned(), value.to_owned());
        if self.tags.len() > 50 { Err("has over 50 tags: AWS allows 50") } else { Ok(()) }
    }

    /// SQS hides a message for twelve hours at most.
    fn lease_of(&mut self, value: &str) -> Result<(), &'static str> {
        const FORM: &str = "takes QUEUE:TIME for lease, as mail:10m: 1s to 12h";
        let (queue, time) = value.rsplit_once(':').filter(|(queue, _)| !queue.is_empty()).ok_or(FORM)?;
        let time = parse_duration(time).map_err(|_| FORM)?;
        if time < Duration::from_secs(1) || time > Duration::from_hours(12) {
            return Err(FORM);
        }
        // 12h as written is a little more than one request can ask for.
        self.leases.insert(queue.to_owned(), time.min(LONGEST));
        Ok(())
    }

    /// The least time for which messages of a queue are invisible; zero = the supervisor's lease.
    pub(super) fn lease(&self, queue: &str) -> Duration {
        self.leases.get(queue).copied().unwrap_or_default()
    }

    /// Whether it has a key to read tasks of kale.
    pub(super) fn reads_tasks(&self) -> bool {
        self.key_file.is_some() || self.default_key
    }

    /// The name of a queue in SQS.
    pub(super) fn name(&self, queue: &str) -> String {
        format!("{}{queue}", self.prefix)
    }

    /// The name of its dead-letter queue in SQS. That of a FIFO queue is a FIFO queue, too.
    pub(super) fn dead_letters(&self, queue: &str) -> Option<String> {
        self.dead_letters_of(&self.name(queue))
    }

    /// The same of a queue by its name in SQS.
    pub(super) fn dead_letters_of(&self, name: &str) -> Option<String> {
        let template = self.dead.as_deref()?;
        let (stem, end) = name.strip_suffix(".fifo").map_or((name, ""), |stem| (stem, ".fifo"));
        let queue = stem.strip_prefix(&self.prefix).unwrap_or(stem);
        Some(format!("{}{end}", template.replace("{name}", stem).replace("{queue}", queue)))
    }

    /// Identifies a broker of this kind.
    pub(super) fn identity(&self) -> String {
        format!("sqs {} {} {}", self.region, self.endpoint.as_deref().unwrap_or("aws"), self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_region_endpoint_prefix_and_flags() {
        let place =
            Place::read("sqs://eu-west-1?endpoint=http://127.0.0.1:9/&prefix=r42-&create=yes").unwrap();
        assert_eq!(place.region, "eu-west-1");
        assert_eq!(place.endpoint.as_deref(), Some("http://127.0.0.1:9"));
        assert_eq!((place.name("mail"), place.create, place.exec), ("r42-mail".into(), true, false));
        assert_eq!(place.dead_letters("mail").as_deref(), Some("dlq-r42-mail"));
        assert_eq!(place.dead_letters("mail.fifo").as_deref(), Some("dlq-r42-mail.fifo"));
        assert_eq!(Place::read("sqs://x?dead=no").unwrap().dead_letters("mail"), None);
        let place = Place::read("sqs://x?prefix=r42-&dead=r42-dlq-{queue}").unwrap();
        assert_eq!(place.dead_letters("mail").as_deref(), Some("r42-dlq-mail"));
        let place = Place::read("sqs://?default_key=yes&put=kale&tag=team:mail&tag=env:a:b").unwrap();
        assert_eq!(
            (place.region.as_str(), place.reads_tasks()),
            ("", true),
            "the environment has the region"
        );
        let tags: Vec<_> = place.tags.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(tags, [("env", "a:b"), ("team", "mail")]);
        let place = Place::read("sqs://x?lease=mail:10m&lease=web:5s").unwrap();
        assert_eq!(["mail", "web", "other"].map(|queue| place.lease(queue).as_secs()), [600, 5, 0]);
    }

    #[test]
    fn wrong_url_is_refused_with_the_reason() {
        for (url, word) in [
            ("sqs:", "region"),
            ("sqs://eu west", "region"),
            ("sqs://x?endpoint=localhost:9", "http"),
            ("sqs://x?dead=letters", "{name}"),
            ("sqs://x?dead={name}", "the queue they come from"),
            ("sqs://x?dead=r-{queue}&prefix=r-", "the queue they come from"),
            ("sqs://x?create=1", "yes or no"),
            ("sqs://x?creat=yes", "knows"),
            ("sqs://x?put=pickle", "json or kale"),
            ("sqs://x?put=kale", "key_file"),
            ("sqs://x?tag=team", "KEY:VALUE"),
            ("sqs://x?tag=:mail", "1 to 128"),
            ("sqs://x?lease=10m", "QUEUE:TIME"),
            ("sqs://x?lease=mail:13h", "12h"),
            ("sqs://x?lease=mail:0s", "1s"),
        ] {
            let wrong = Place::read(url).unwrap_err();
            assert!(wrong.contains(word), "{url}: {wrong}");
        }
    }
}
