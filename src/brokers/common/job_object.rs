//! A job as a JSON object, for brokers that keep only a text for each: `{"class": "mail", "data": {…}}`. Optional
//! fields are `retries`, `retry_delay`, `retry_cap` and `time_limit` in seconds, and `tags`.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::value::{RawValue, to_raw_value};

use broker::Error;
use model::{Bytes, Class, Exec, JobId, NewJob, Payload, QueueName, Retry};

/// Options for reading and writing such objects.
#[derive(Clone, Copy, Debug)]
pub struct JobObject {
    /// Whether programs are accepted: then everyone who can write to the broker can run programs here.
    pub exec: bool,
}

/// The optional fields of an object, beside class and data.
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
#[serde(expecting = "an object with an argv")]
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
struct Object<'a> {
    class: &'a str,
    data: &'a RawValue,
    #[serde(flatten)]
    settings: Settings,
}

impl JobObject {
    /// Reads the rest of an object whose class and data were read already; `Err` says why it is not a job.
    pub fn read(
        self,
        queue: &QueueName,
        id: JobId,
        class: Class,
        data: Vec<u8>,
        object: &str,
    ) -> Result<NewJob, String> {
        let settings: Settings =
            serde_json::from_str(object).map_err(|error| format!("its settings cannot be read: {error}"))?;
        let payload = match class.as_str() == Class::EXEC {
            true => self.program(&data)?,
            false => Payload::Data(Bytes(data)),
        };
        let job = NewJob {
            id: Some(id),
            retry: settings.retry()?,
            time_limit: settings.time_limit.map(length).transpose()?,
            tags: settings.tags,
            ..NewJob::new(queue.clone(), class, payload)
        };
        job.fault().map_or(Ok(job), Err)
    }

    fn program(self, data: &[u8]) -> Result<Payload, String> {
        if !self.exec {
            return Err(
                "it names a program, and none are taken from this broker: its URL has no exec=yes".into()
            );
        }
        let program: Program =
            serde_json::from_slice(data).map_err(|error| format!("its program cannot be read: {error}"))?;
        let umask = u32::from_str_radix(&program.umask, 8)
            .map_err(|_| format!("its umask '{}' is no octal number", program.umask))?;
        let argv = program.argv.iter().map(|word| word.as_str().into()).collect();
        Ok(Payload::Exec(Exec { argv, cwd: program.cwd.as_str().into(), umask, ..Exec::default() }))
    }

    /// A new job as an object, its data as they were put.
    pub fn write(self, job: &NewJob) -> Result<String, Error> {
        // RawValue keeps the text: a parsed number may be written with other digits.
        let data: Box<RawValue> = match &job.payload {
            Payload::Data(data) => serde_json::from_slice(&data.0).map_err(|error| {
                Error::Refused(format!("the data of a job in this broker is JSON, and this is none: {error}"))
            })?,
            Payload::Exec(exec) => self.write_program(exec)?,
        };
        let seconds = |time: Duration| time.as_secs_f64();
        let settings = Settings {
            retries: job.retry.map(|retry| retry.retries),
            retry_delay: job.retry.map(|retry| seconds(retry.delay)),
            retry_cap: job.retry.map(|retry| seconds(retry.cap)),
            time_limit: job.time_limit.map(seconds),
            tags: job.tags.clone(),
        };
        let object = Object { class: job.class.as_str(), data: &data, settings };
        serde_json::to_string(&object).map_err(|error| Error::Failed(error.to_string()))
    }

    fn write_program(self, exec: &Exec) -> Result<Box<RawValue>, Error> {
        if !self.exec {
            return Err(Error::Refused(
                "programs are put into this broker only where its URL has exec=yes: whoever can write to its queues can \
                 then run programs here"
                    .into(),
            ));
        }
        let text = |bytes: &Bytes| {
            let refused = "a program in this broker has arguments and a directory in UTF-8";
            String::from_utf8(bytes.0.clone()).map_err(|_| Error::Refused(refused.into()))
        };
        if !exec.stdin.0.is_empty() {
            return Err(Error::Refused(
                "a program in this broker has no standard input: pass it as an argument".into(),
            ));
        }
        let argv = exec.argv.iter().map(text).collect::<Result<_, _>>()?;
        let program = Program { argv, cwd: text(&exec.cwd)?, umask: format!("{:03o}", exec.umask) };
        to_raw_value(&program).map_err(|error| Error::Failed(error.to_string()))
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
    // Written out, 1e300 would have 301 digits.
    Duration::try_from_secs_f64(seconds).map_err(|_| format!("{seconds:e} s is no length of time"))
}
