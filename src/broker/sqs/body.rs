//! Jobs as messages. The native body is a JSON object: `{"class": "mail", "data": {…}}`, and beside these what a job may
//! have: `retries`, `retry_delay`, `retry_cap` and `time_limit` in seconds, `tags`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::client::Message;
use crate::broker::Error;
use crate::kale::{Body, Codec, Reading};
use crate::model::{Bytes, Class, Exec, NewJob, Payload, QueueName, Retry};

/// A message that was read.
#[derive(Clone, Debug)]
pub(super) struct Read {
    /// As it would be put, with the message's id as its own.
    pub job: NewJob,
}

/// How the messages of a broker are read.
pub(super) struct Bodies {
    reading: Reading,
    exec: bool,
}

/// What a native body may have beside class and data.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Settings {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_delay: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    retry_cap: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    time_limit: Option<f64>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    tags: Vec<String>,
}

/// A program in the data of a job of the class `exec`.
#[derive(Debug, Serialize, Deserialize)]
struct Program {
    argv: Vec<String>,
    #[serde(default = "root")]
    cwd: String,
    #[serde(default = "usual_umask")]
    umask: String,
}

fn root() -> String {
    "/".into()
}

fn usual_umask() -> String {
    "022".into()
}

#[derive(Serialize)]
struct Native<'a> {
    class: &'a str,
    data: &'a Json,
    #[serde(flatten)]
    settings: Settings,
}

impl Bodies {
    pub(super) fn new(codec: Option<Codec>, text_class: Option<String>, exec: bool) -> Bodies {
        Bodies { reading: Reading { codec, text_class }, exec }
    }

    /// The job in a message; `Err` says why it is none, to go on after "the message is poison: ".
    pub(super) fn read(&self, queue: &QueueName, message: &Message) -> Result<Read, String> {
        let body = self.reading.read(&message.body).map_err(|error| error.to_string())?;
        let (class, payload, settings) = match body {
            Body::Native { class, data } => {
                let settings = serde_json::from_str(&message.body)
                    .map_err(|error| format!("its settings cannot be read: {error}"))?;
                let payload = match class == Class::EXEC {
                    true => self.program(data)?,
                    false => Payload::Data(Bytes(data.to_string().into_bytes())),
                };
                (class, payload, settings)
            }
            // The worker reads the message itself: only it may run what a pickle says.
            Body::Kale(task) => {
                let data = Json::String(message.body.clone()).to_string();
                (task.message.task, Payload::Data(data.as_str().into()), Settings::default())
            }
            Body::Text { class, text } => {
                let data = Json::String(text).to_string();
                (class, Payload::Data(data.as_str().into()), Settings::default())
            }
        };
        let job = NewJob {
            id: Some(message.job.as_str().into()),
            tags: settings.tags.clone(),
            retry: settings.retry()?,
            time_limit: settings.time_limit.map(length).transpose()?,
            ..NewJob::new(queue.clone(), class.into(), payload)
        };
        job.fault().map_or(Ok(Read { job }), Err)
    }

    fn program(&self, data: Json) -> Result<Payload, String> {
        if !self.exec {
            return Err(
                "it names a program, and none are taken from this broker: its URL has no exec=yes".into()
            );
        }
        let program: Program =
            serde_json::from_value(data).map_err(|error| format!("its program cannot be read: {error}"))?;
        let umask = u32::from_str_radix(&program.umask, 8)
            .map_err(|_| format!("its umask '{}' is no octal number", program.umask))?;
        let argv = program.argv.iter().map(|word| word.as_str().into()).collect();
        Ok(Payload::Exec(Exec { argv, cwd: program.cwd.as_str().into(), umask, ..Exec::default() }))
    }

    /// The body of a new job. A task of kale is sent as kale would send it.
    pub(super) fn write(&self, job: &NewJob) -> Result<String, Error> {
        let data: Json = match &job.payload {
            Payload::Data(data) => serde_json::from_slice(&data.0).map_err(|error| {
                Error::Refused(format!("the data of a job in SQS is JSON, and this is none: {error}"))
            })?,
            Payload::Exec(exec) => self.write_program(exec)?,
        };
        if let (Json::String(text), Some(codec)) = (&data, &self.reading.codec)
            && codec.open(text).is_ok()
        {
            return Ok(text.clone());
        }
        let seconds = |time: Duration| time.as_secs_f64();
        let settings = Settings {
            retries: job.retry.map(|retry| retry.retries),
            retry_delay: job.retry.map(|retry| seconds(retry.delay)),
            retry_cap: job.retry.map(|retry| seconds(retry.cap)),
            time_limit: job.time_limit.map(seconds),
            tags: job.tags.clone(),
        };
        let body = Native { class: job.class.as_str(), data: &data, settings };
        serde_json::to_string(&body).map_err(|error| Error::Failed(error.to_string()))
    }

    fn write_program(&self, exec: &Exec) -> Result<Json, Error> {
        if !self.exec {
            return Err(Error::Refused(
                "programs are put into SQS only where the broker's URL has exec=yes: whoever can write to its queues can \
                 then run programs here"
                    .into(),
            ));
        }
        let text = |bytes: &Bytes| {
            String::from_utf8(bytes.0.clone())
                .map_err(|_| Error::Refused("a program in SQS has arguments and a directory in UTF-8".into()))
        };
        if !exec.stdin.0.is_empty() {
            return Err(Error::Refused(
                "a program in SQS has no standard input: pass it as an argument".into(),
            ));
        }
        let argv = exec.argv.iter().map(text).collect::<Result<_, _>>()?;
        let program = Program { argv, cwd: text(&exec.cwd)?, umask: format!("{:03o}", exec.umask) };
        serde_json::to_value(program).map_err(|error| Error::Failed(error.to_string()))
    }
}

impl Settings {
    fn retry(&self) -> Result<Option<Retry>, String> {
        if self.retries.is_none() && self.retry_delay.is_none() && self.retry_cap.is_none() {
            return Ok(None);
        }
        let usual = Retry::CLASS;
        Ok(Some(Retry {
            retries: self.retries.unwrap_or(usual.retries),
            delay: self.retry_delay.map_or(Ok(usual.delay), length)?,
            cap: self.retry_cap.map_or(Ok(usual.cap), length)?,
        }))
    }
}

fn length(seconds: f64) -> Result<Duration, String> {
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{seconds} s is no length of time"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kale::Key;

    fn message(body: &str) -> Message {
        let (id, job) = ("m1".into(), "m1".into());
        Message { id, job, handle: "h".into(), body: body.into(), received: 1, group: None }
    }

    fn read(bodies: &Bodies, body: &str) -> Result<NewJob, String> {
        bodies.read(&"q".into(), &message(body)).map(|read| read.job)
    }

    #[test]
    fn a_job_that_is_put_is_read_back_as_it_was() {
        let bodies = Bodies::new(None, None, true);
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
            r#"{"class":"mail","data":{"n":12345678901234567890,"to":"a"},"retries":3,"retry_delay":1.5,"retry_cap":60.0,"time_limit":90.0,"tags":["x"]}"#
        );
        let back = read(&bodies, &body).unwrap();
        assert_eq!((back.retry, back.time_limit, &back.tags), (put.retry, put.time_limit, &put.tags));
        assert_eq!((back.id, back.class), (Some("m1".into()), "mail".into()));
    }

    #[test]
    fn a_plain_message_needs_a_class_alone() {
        let job = read(&Bodies::new(None, None, false), r#"{"class":"mail"}"#).unwrap();
        assert_eq!((job.payload, job.retry), (Payload::Data("null".into()), None));
    }

    #[test]
    fn programs_are_taken_only_where_that_is_allowed() {
        let body = r#"{"class":"exec","data":{"argv":["/bin/true"]}}"#;
        let refused = read(&Bodies::new(None, None, false), body).unwrap_err();
        assert!(refused.contains("exec=yes"), "{refused}");
        let Payload::Exec(exec) = read(&Bodies::new(None, None, true), body).unwrap().payload else {
            panic!("no program")
        };
        assert_eq!((exec.argv, exec.umask), (vec!["/bin/true".into()], 0o022));
        let put = NewJob::new("q".into(), Class::EXEC.into(), Payload::Exec(Exec::default()));
        assert!(Bodies::new(None, None, false).write(&put).unwrap_err().to_string().contains("exec=yes"));
    }

    /// The test vector of kale's own format.
    const TASK: &str = "1GNz/Z9Er5ScPmFGe4vmXpA2hCU+MXANhTSXtT6qAYd7VkAbXsjHBSB6i/53z1/v3INElyr5qlYi6D4SMrS3+qE7/WlgNLYDl/jvw9GBg1lCYB0aB5JTfBcHRDpE9QU3/qHybUQm6Uo68ti6BzvEHFFlo/xVJpVd1nNiSDmfTNd9CRKlW1Jfe4I2hAdmvPyYsyeGha7ovcLRKaaN/VhMCilSES0sAnbLhfo11PbhYBI=";

    #[test]
    fn a_task_of_kale_goes_to_its_worker_and_on_as_it_came() {
        let key = Key::new(crate::kale::DEFAULT_KEY, true).unwrap();
        let bodies = Bodies::new(Some(Codec::new(key, crate::kale::Compression::Zlib)), None, false);
        let job = read(&bodies, TASK).unwrap();
        assert_eq!(job.class.as_str(), "kb_tasks.Noop");
        assert_eq!(job.payload, Payload::Data(Json::String(TASK.into()).to_string().as_str().into()));
        assert_eq!(bodies.write(&job).unwrap(), TASK);
        let spoiled = read(&bodies, &TASK[..200]).unwrap_err();
        assert!(spoiled.contains("cut off") || spoiled.contains("inflate"), "{spoiled}");
    }

    #[test]
    fn poison_is_told_in_words() {
        let bodies = Bodies::new(None, None, false);
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
        let text = Bodies::new(None, Some("line".into()), false);
        assert_eq!(read(&text, "hello").unwrap().payload, Payload::Data(r#""hello""#.into()));
    }
}
