//! Converts between values and jobs.

use std::str;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::settings::Settings;
use broker::Error;
use common::JobObject;
use model::{Bytes, Class, JobId, NewJob, Payload};

/// The class of a value that does not name one.
const PLAIN: &str = "value";

#[derive(Deserialize)]
struct Named<'a> {
    class: Class,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl Settings {
    /// The class of a value; if the value is an object with a class and data, also its text and the data.
    fn parts<'a>(&self, value: &'a [u8]) -> (Class, Option<(&'a str, &'a RawValue)>) {
        let plain = || (self.class.clone().unwrap_or_else(|| PLAIN.into()), None);
        let is_object = |text: &&str| self.class.is_none() && text.trim_start().starts_with('{');
        let Some(text) = str::from_utf8(value).ok().filter(is_object) else { return plain() };
        match serde_json::from_str(text) {
            Ok(Named { class, data }) => (class, data.map(|data| (text, data))),
            // A value of another program is data, whatever it looks like.
            Err(_) => plain(),
        }
    }

    /// The class of a value.
    pub(super) fn class_of(&self, value: &[u8]) -> Class {
        self.parts(value).0
    }

    /// Reads a value as a job. `{"class": …, "data": …}` is a job as `put` writes it; any other value is data as a
    /// whole.
    pub(super) fn job(&self, id: JobId, value: Vec<u8>) -> Result<NewJob, String> {
        let class = match self.parts(&value) {
            (class, Some((text, data))) => {
                let (object, data) = (JobObject { exec: self.exec }, data.get().as_bytes().to_vec());
                return object.read(&self.queue, id, class, data, text);
            }
            (class, None) => class,
        };
        let job = NewJob::new(self.queue.clone(), class, Payload::Data(Bytes(value)));
        let job = NewJob { id: Some(id), ..job };
        job.fault().map_or(Ok(job), Err)
    }

    /// The value of a new job.
    pub(super) fn value(&self, job: &NewJob) -> Result<Vec<u8>, Error> {
        let own = &self.queue;
        if job.queue != *own {
            let asked = &job.queue;
            let why = format!(
                "this broker has one queue, '{own}', and not '{asked}': name it in the URL, as ?queue={asked}"
            );
            return Err(Error::Refused(why));
        }
        let is_plain = job.retry.is_none() && job.time_limit.is_none() && job.tags.is_empty();
        match (&self.class, &job.payload) {
            (None, _) => JobObject { exec: self.exec }.write(job).map(String::into_bytes),
            (Some(class), Payload::Data(data)) if job.class == *class && is_plain => Ok(data.0.clone()),
            (Some(class), _) => Err(Error::Refused(format!(
                "the broker's URL makes every value data of the class '{class}': put data for that class, without settings of \
                 the job's own, or leave the URL's class= out"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(query: &str) -> Settings {
        Settings::read(&format!("reliable+redis://h?{query}")).unwrap()
    }

    #[track_caller]
    fn read(query: &str, value: &[u8]) -> (String, Vec<u8>) {
        let job = settings(query).job("j".into(), value.to_vec()).unwrap();
        let Payload::Data(data) = job.payload else { panic!("no data") };
        (job.class.to_string(), data.0)
    }

    #[test]
    fn value_is_the_data_unless_it_has_a_data_field() {
        let same = |query: &str, class: &str, value: &[u8]| {
            assert_eq!(read(query, value), (class.into(), value.to_vec()));
        };
        same("", "value", b"hello");
        same("", "value", b"\xff\x00");
        same("", "value", b"{\"class\": 5}");
        same("", "value", b"{\"class\": \"mail\", \"data\": NaN}");
        same("", "value", b"[\"mail\", {\"to\": \"ann\"}]");
        same("", "mail", b"{\"class\": \"mail\", \"to\": \"ann\"}");
        same("class=mail", "mail", b"{\"class\": \"x\", \"data\": 1}");
        assert_eq!(
            read("", b"{\"class\": \"m\", \"data\": {\"b\": 1, \"a\": 1.0}}").1,
            b"{\"b\": 1, \"a\": 1.0}"
        );
    }

    #[test]
    fn put_value_round_trips() {
        let put = NewJob {
            tags: vec!["t".into()],
            ..NewJob::new("default".into(), "mail".into(), Payload::Data("{\"b\":1,\"a\":2}".into()))
        };
        let value = settings("").value(&put).unwrap();
        let back = settings("").job("j".into(), value).unwrap();
        assert_eq!(
            (back.class, back.payload, back.tags),
            (put.class.clone(), put.payload.clone(), put.tags.clone())
        );
        let plain = NewJob { tags: Vec::new(), ..put.clone() };
        assert_eq!(settings("class=mail").value(&plain).unwrap(), b"{\"b\":1,\"a\":2}");
        for (query, job) in [("class=mail", &put), ("class=x", &plain), ("queue=other", &plain)] {
            assert!(settings(query).value(job).is_err(), "{query}");
        }
    }

    #[test]
    fn program_is_accepted_only_with_exec_yes() {
        let value = br#"{"class": "exec", "data": {"argv": ["/bin/true"]}}"#;
        assert!(settings("").job("j".into(), value.to_vec()).unwrap_err().contains("exec=yes"));
        let job = settings("exec=yes").job("j".into(), value.to_vec()).unwrap();
        assert!(matches!(job.payload, Payload::Exec(_)));
    }
}
