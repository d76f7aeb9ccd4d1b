//! Jobs as messages: in the native form of [`JobObject`], as tasks of kale, or as texts for one class.

use std::fs::OpenOptions;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value as Json;

use super::address::Place;
use super::client;
use super::titles::Titles;
use broker::Error;
use common::{JobObject, host_name};
use kale::{Body, BodyError, Codec, CodecError, Compression, DEFAULT_KEY, Key, Message, Reading, Sender};
use model::{Millis, NewJob, Payload, QueueName};
use start_dir::from_start_dir;

/// How the messages of a broker are read.
pub(super) struct Bodies {
    reading: Reading,
    object: JobObject,
    /// Whether new jobs are written as tasks of kale.
    puts_tasks: bool,
}

impl Bodies {
    /// As a broker's URL says; reads its key.
    pub(super) fn of(place: &Place) -> Result<Bodies, Error> {
        let codec = match &place.key_file {
            Some(file) => Some(codec(file, place.default_key)?),
            None if place.default_key => Some(default_codec()?),
            None => None,
        };
        let reading = Reading { codec, text_class: place.text_class.clone() };
        Ok(Bodies { reading, object: JobObject { exec: place.exec }, puts_tasks: place.puts_tasks })
    }

    /// The job in a message, as it would be put, with the message's id as its own, and when it was put; `Err` says why it
    /// is none, to go on after "the message is poison: ".
    pub(super) fn read(
        &self,
        queue: &QueueName,
        message: &client::Message,
    ) -> Result<(NewJob, Option<Millis>), Unread> {
        let id = message.job.as_str().into();
        let body = self.reading.read(&message.body).map_err(|error| Unread::of(&error, &message.body))?;
        let mut put_at = message.sent;
        let (class, data) = match body {
            Body::Native { class, data } => {
                let job = self.object.read(queue, id, class.into(), data.into_bytes(), &message.body)?;
                return Ok((job, message.sent));
            }
            // The worker reads the message itself: only it may run what a pickle says.
            Body::Kale(task) => {
                put_at = enqueued(task.enqueued_time).or(put_at);
                (task.task, Json::String(message.body.clone()))
            }
            Body::Text { class, text } => (class, Json::String(text)),
        };
        let data = Payload::Data(data.to_string().as_str().into());
        let job = NewJob { id: Some(id), ..NewJob::new(queue.clone(), class.into(), data) };
        job.fault().map_or(Ok((job, put_at)), |why| Err(why.into()))
    }

    /// How lists name its jobs.
    pub(super) fn titles(&self) -> Titles {
        Titles(self.reading.codec.clone())
    }

    /// Whether a message is a task of kale that the key opens.
    pub(super) fn opens(&self, message: &client::Message) -> bool {
        self.reading.codec.as_ref().is_some_and(|codec| codec.open(&message.body).is_ok())
    }

    /// The body with which a failed job begins again: the counters of a task of kale are cleared, if its message can be
    /// written again.
    pub(super) fn afresh(&self, body: &str, now: Millis) -> String {
        let cleared = || {
            let codec = self.reading.codec.as_ref()?;
            let task = Message::read(&codec.open(body).ok()?).ok()?;
            let enqueued_time = now.0 as f64 / 1000.0;
            let task = Message { retry_num: 0, failure_num: 0, enqueued_time, ..task };
            Some(codec.seal(&task.pickle()?))
        };
        cleared().unwrap_or_else(|| body.to_owned())
    }

    /// The body for a new job. A message of a task of kale is sent as it is.
    pub(super) fn write(&self, job: &NewJob) -> Result<String, Error> {
        let Some(codec) = &self.reading.codec else { return self.object.write(job) };
        match &job.payload {
            Payload::Data(data) => match serde_json::from_slice::<String>(&data.0) {
                Ok(text) if codec.open(&text).is_ok() => Ok(text),
                Ok(_) | Err(_) if self.puts_tasks => task(codec, job, &data.0).map_err(Error::Refused),
                Ok(_) | Err(_) => self.object.write(job),
            },
            Payload::Exec(_) if self.puts_tasks => Err(Error::Refused(
                "the broker's URL makes a task of kale of what is put, and a command is none: leave its put=kale out".into(),
            )),
            Payload::Exec(_) => self.object.write(job),
        }
    }
}

/// The time that kale writes into a message: seconds since 1970. None = it is no time.
fn enqueued(seconds: f64) -> Option<Millis> {
    let millis = seconds * 1000.0;
    // NaN is in no range.
    (millis >= 1.0 && millis < i64::MAX as f64).then_some(Millis(millis as i64))
}

/// Why a message is no job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unread {
    /// Goes on after "the message is poison: ".
    pub why: String,
    /// Whether it may be a task of kale that was encrypted with another key.
    pub may_be_sealed: bool,
}

impl Unread {
    fn of(error: &BodyError, body: &str) -> Unread {
        let may_be_sealed = match error {
            BodyError::Codec(CodecError::Decrypt | CodecError::Inflate(_)) => true,
            BodyError::Unknown => is_like_a_task(body),
            BodyError::NoClass
            | BodyError::Codec(CodecError::Base64(_) | CodecError::TooLarge)
            | BodyError::Envelope(_) => false,
        };
        Unread { why: error.to_string(), may_be_sealed }
    }
}

impl From<String> for Unread {
    fn from(why: String) -> Unread {
        Unread { why, may_be_sealed: false }
    }
}

/// Whether it has the form of a task of kale, whatever its key: base64 of whole blocks of AES. The shortest task has
/// more than 100 bytes.
fn is_like_a_task(body: &str) -> bool {
    STANDARD.decode(body.trim()).is_ok_and(|sealed| sealed.len() >= 96 && sealed.len().is_multiple_of(16))
}

/// Reads the key of kale's tasks from its file.
fn codec(file: &Path, allow_default: bool) -> Result<Codec, Error> {
    let wrong = |why: &dyn std::fmt::Display| {
        Error::Url(format!("the broker 'sqs:' cannot use the key in {}: {why}", file.display()))
    };
    // With this flag, opening a FIFO or a device does not block.
    let open = |path: PathBuf| OpenOptions::new().read(true).custom_flags(nix::libc::O_NONBLOCK).open(path);
    let opened = from_start_dir(file).and_then(open).map_err(|error| wrong(&error))?;
    let found = opened.metadata().map_err(|error| wrong(&error))?;
    if let Some(why) = is_open_to_others(found.uid(), found.mode()) {
        return Err(wrong(&why));
    }
    let mut text = String::new();
    // A key is short: a large file is another one, named by mistake.
    opened.take(4096).read_to_string(&mut text).map_err(|error| wrong(&error))?;
    let key = Key::new(text.trim_end_matches('\n'), allow_default).map_err(|error| wrong(&error))?;
    Ok(Codec::new(key, Compression::Zlib))
}

/// Why a file is no secret of this user: the key lets its owner run code in the workers. A group may read it, as
/// secrets are mounted into containers that way.
fn is_open_to_others(owner: u32, mode: u32) -> Option<String> {
    let own = nix::unistd::geteuid().as_raw();
    if ![0, own].contains(&owner) {
        return Some(format!("it belongs to uid {owner}, who can change it"));
    }
    let is_open = mode & 0o027 != 0;
    is_open.then(|| format!("others can read or change it (mode {:o}): chmod 600", mode & 0o7777))
}

/// With the key that kale has where its settings name none.
fn default_codec() -> Result<Codec, Error> {
    let key = Key::new(DEFAULT_KEY, true);
    key.map(|key| Codec::new(key, Compression::Zlib)).map_err(|error| Error::Url(error.to_string()))
}

/// The message for a call, as kale's own publisher sends it.
fn task(codec: &Codec, job: &NewJob, data: &[u8]) -> Result<String, String> {
    if job.retry.is_some() || job.time_limit.is_some() || !job.tags.is_empty() {
        return Err(
            "a message of kale has no retries, time limit or tags: its class in Python says them".into()
        );
    }
    let class = job.class.as_str().rsplit('.').next().unwrap_or_default();
    let id = match &job.id {
        Some(id) => id.to_string(),
        None => format!("{class}_uuid_{}", uuid::Uuid::now_v7()),
    };
    let publisher = format!("{}[{}]", host_name(), std::process::id());
    let sender = Sender { publisher, enqueued_time: clock::wall().0 as f64 / 1000.0 };
    let message = Message::first(job.class.as_str(), id, data, sender)?;
    let pickle = message.pickle().ok_or("its data cannot be written as a message of kale")?;
    Ok(codec.seal(&pickle))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use kale::Key;
    use model::{Class, Exec, Retry};

    fn message(body: &str) -> client::Message {
        let (id, job) = ("m1".into(), "m1".into());
        let sent = Some(Millis(7_000));
        client::Message { id, job, handle: "h".into(), body: body.into(), received: 1, group: None, sent }
    }

    fn plain(exec: bool) -> Bodies {
        Bodies::of(&Place { exec, ..Place::default() }).unwrap()
    }

    fn read(bodies: &Bodies, body: &str) -> Result<NewJob, String> {
        bodies.read(&"q".into(), &message(body)).map(|(job, _)| job).map_err(|unread| unread.why)
    }

    #[test]
    fn key_file_that_others_can_read_is_refused() {
        let own = nix::unistd::geteuid().as_raw();
        for (owner, mode, words) in [
            (own, 0o100_644, "others can read or change it (mode 644)"),
            (own, 0o100_620, "others can read or change it"),
            (own + 1, 0o100_600, "who can change it"),
        ] {
            assert!(is_open_to_others(owner, mode).unwrap().contains(words), "{owner} {mode:o}");
        }
        assert_eq!(
            [0o100_600, 0o100_640, 0o100_400].map(|mode| is_open_to_others(0, mode)),
            [None, None, None]
        );
    }

    #[test]
    fn key_file_that_is_a_fifo_is_refused_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("key");
        nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRUSR).unwrap();
        let why = codec(&fifo, false).err().unwrap().to_string();
        assert!(why.contains("cannot use the key in") && why.contains("key:"), "{why}");
    }

    #[test]
    fn put_job_round_trips_through_a_message() {
        let bodies = plain(true);
        let retry = Retry { retries: 3, delay: Duration::from_millis(1500), cap: Duration::from_secs(60) };
        let put = NewJob {
            retry: Some(retry),
            time_limit: Some(Duration::from_secs(90)),
            tags: vec!["x".into()],
            ..NewJob::new(
                "q".into(),
                "mail".into(),
                Payload::Data(r#"{"to":"a","n":12345678901234567890}"#.into()),
            )
        };
        let body = bodies.write(&put).unwrap();
        assert_eq!(
            body,
            r#"{"class":"mail","data":{"to":"a","n":12345678901234567890},"retries":3,"retry_delay":1.5,"retry_cap":60.0,"time_limit":90.0,"tags":["x"]}"#
        );
        let back = read(&bodies, &body).unwrap();
        assert_eq!((back.retry, back.time_limit, &back.tags), (put.retry, put.time_limit, &put.tags));
        assert_eq!((back.id, back.class), (Some("m1".into()), "mail".into()));
    }

    #[test]
    fn plain_message_needs_only_a_class() {
        let job = read(&plain(false), r#"{"class":"mail"}"#).unwrap();
        assert_eq!((job.payload, job.retry), (Payload::Data("null".into()), None));
    }

    #[test]
    fn programs_are_accepted_only_with_exec_yes() {
        let body = r#"{"class":"exec","data":{"argv":["/bin/true"]}}"#;
        let refused = read(&plain(false), body).unwrap_err();
        assert!(refused.contains("exec=yes"), "{refused}");
        let Payload::Exec(exec) = read(&plain(true), body).unwrap().payload else { panic!("no program") };
        assert_eq!((exec.argv, exec.umask), (vec!["/bin/true".into()], 0o022));
        let put = NewJob::new("q".into(), Class::EXEC.into(), Payload::Exec(Exec::default()));
        assert!(plain(false).write(&put).unwrap_err().to_string().contains("exec=yes"));
    }

    /// The test vector of kale's own format.
    const TASK: &str = "1GNz/Z9Er5ScPmFGe4vmXpA2hCU+MXANhTSXtT6qAYd7VkAbXsjHBSB6i/53z1/v3INElyr5qlYi6D4SMrS3+qE7/WlgNLYDl/jvw9GBg1lCYB0aB5JTfBcHRDpE9QU3/qHybUQm6Uo68ti6BzvEHFFlo/xVJpVd1nNiSDmfTNd9CRKlW1Jfe4I2hAdmvPyYsyeGha7ovcLRKaaN/VhMCilSES0sAnbLhfo11PbhYBI=";

    #[test]
    fn task_of_kale_is_passed_and_republished_unchanged() {
        let key = Key::new(kale::DEFAULT_KEY, true).unwrap();
        let reading = Reading { codec: Some(Codec::new(key, Compression::Zlib)), text_class: None };
        let bodies = Bodies { reading, ..plain(false) };
        let job = read(&bodies, TASK).unwrap();
        assert_eq!(job.class.as_str(), "kb_tasks.Noop");
        let put_at = |body: &str| bodies.read(&"q".into(), &message(body)).unwrap().1;
        assert_eq!(put_at(TASK), Some(Millis(123_500)), "kale's own time");
        assert_eq!(put_at(r#"{"class":"mail"}"#), Some(Millis(7_000)), "the time of the message");
        assert_eq!([0.0, -1.0, f64::NAN, f64::INFINITY].map(enqueued), [None; 4]);
        assert_eq!(job.payload, Payload::Data(Json::String(TASK.into()).to_string().as_str().into()));
        assert_eq!(bodies.write(&job).unwrap(), TASK);
        let again = bodies.read(&"q".into(), &message(&bodies.afresh(TASK, Millis(9_000)))).unwrap();
        assert_eq!((again.0.class.as_str(), again.1), ("kb_tasks.Noop", Some(Millis(9_000))));
        assert_eq!(bodies.afresh(r#"{"class":"mail"}"#, Millis(9_000)), r#"{"class":"mail"}"#);
        let bodies = Bodies { puts_tasks: true, ..bodies };
        assert_eq!(bodies.write(&job).unwrap(), TASK, "it is one already");
        let data = Payload::Data(r#"{"args": [1]}"#.into());
        let put = NewJob::new("q".into(), "kb_tasks.Noop".into(), data);
        assert_eq!(read(&bodies, &bodies.write(&put).unwrap()).unwrap().class, put.class);
        for refused in [
            NewJob { time_limit: Some(Duration::from_secs(1)), ..put.clone() },
            NewJob { payload: Payload::Data("[1]".into()), ..put.clone() },
            NewJob::new("q".into(), Class::EXEC.into(), Payload::Exec(Exec::default())),
        ] {
            assert!(matches!(bodies.write(&refused), Err(Error::Refused(_))));
        }
        let spoiled = read(&bodies, &TASK[..200]).unwrap_err();
        assert!(spoiled.contains("cut off") || spoiled.contains("inflate"), "{spoiled}");
    }

    #[test]
    fn task_of_another_key_is_told_from_other_poison() {
        let sealed =
            |bodies: &Bodies, body: &str| bodies.read(&"q".into(), &message(body)).unwrap_err().may_be_sealed;
        let other = Bodies::of(&Place { default_key: true, ..Place::default() }).unwrap();
        let key = Key::new("another 16 bytes", false).unwrap();
        let body = Codec::new(key, Compression::Zlib).seal(&[7; 300]);
        assert!(sealed(&other, &body), "opened with another key it does not inflate, or has no padding");
        let long = STANDARD.encode([9; 160]);
        assert!(
            sealed(&plain(false), &long) && !sealed(&plain(false), "hello") && !sealed(&plain(false), "{}")
        );
    }

    #[test]
    fn poison_messages_are_refused_with_the_reason() {
        let bodies = plain(false);
        for (body, word) in [
            ("hello", "no JSON object"),
            ("{}", "'class'"),
            (r#"{"class":""}"#, "'class'"),
            (r#"{"class":"a","retries":-1}"#, "settings"),
            (r#"{"class":"a","time_limit":-1}"#, "length of time"),
        ] {
            let why = read(&bodies, body).unwrap_err();
            assert!(why.contains(word), "{body}: {why}");
        }
        let text = Bodies::of(&Place { text_class: Some("line".into()), ..Place::default() }).unwrap();
        assert_eq!(read(&text, "hello").unwrap().payload, Payload::Data(r#""hello""#.into()));
    }
}
