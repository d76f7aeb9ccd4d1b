//! Settings in the URL: those of the Redis, and those of its queue.

use std::time::Duration;

use broker::yes_or_no;
use model::{Class, QueueName, parse_duration};

/// The queue that a URL describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The URL of the Redis alone.
    pub redis: String,
    /// The name of the queue here.
    pub queue: QueueName,
    /// The class of all values; None = each value names its own.
    pub class: Option<Class>,
    /// Whether values may name programs.
    pub exec: bool,
    /// A job that another client has had in `working` for this long waits again.
    pub stale_time: Duration,
    /// Interval between two looks at those jobs.
    pub tidy_interval: Duration,
    /// How long to keep a value and its result; 0 = for ever.
    pub keep: Duration,
}

/// The known names in a URL's query.
const OURS: [&str; 6] = ["queue", "class", "exec", "stale_time", "tidy_interval", "keep"];

impl Settings {
    /// Reads a URL. The error is the end of "the broker 'SCHEME:' …".
    pub(super) fn read(url: &str) -> Result<Settings, &'static str> {
        let url = url.strip_prefix("reliable+").unwrap_or(url);
        let url = url.strip_prefix("sentinel:").map_or(url.into(), |rest| format!("redis+sentinel:{rest}"));
        let (redis, own) = redis_link::split_off(&url, &OURS);
        let mut settings = Settings {
            redis,
            queue: "default".into(),
            class: None,
            exec: false,
            stale_time: Duration::from_secs(30),
            tidy_interval: Duration::from_secs(5),
            keep: Duration::from_secs(7 * 24 * 3600),
        };
        for (name, value) in own {
            match (name, value) {
                ("queue" | "class", "") => return Err("has an empty 'queue=' or 'class='"),
                ("queue", name) => settings.queue = name.into(),
                ("class", name) => settings.class = Some(name.into()),
                ("exec", said) => {
                    settings.exec = yes_or_no(said).ok_or("has an 'exec=' that is neither yes nor no")?;
                }
                ("stale_time", time) => settings.stale_time = length(time)?,
                ("tidy_interval", time) => settings.tidy_interval = length(time)?,
                (_, time) => settings.keep = length(time)?,
            }
        }
        Ok(settings)
    }
}

/// Reads a duration; a plain number means seconds, as in the tutorial.
fn length(text: &str) -> Result<Duration, &'static str> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds
        .or_else(|| parse_duration(text).ok())
        .ok_or("has a 'stale_time=', 'tidy_interval=' or 'keep=' that is no length of time like 30 or 2m")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_parameters_are_split_off_the_url() {
        let read = |url: &str| Settings::read(url).unwrap();
        let all = read(
            "reliable+rediss://u:p@h:1/2?ca=/x&queue=mail&class=Mail&exec=yes&stale_time=3&tidy_interval=2m&keep=0",
        );
        assert_eq!((all.redis.as_str(), all.queue.as_str()), ("rediss://u:p@h:1/2?ca=/x", "mail"));
        assert_eq!((all.class, all.exec), (Some("Mail".into()), true));
        assert_eq!([all.stale_time, all.tidy_interval, all.keep].map(|time| time.as_secs()), [3, 120, 0]);
        assert_eq!(read("reliable+unix:///r?db=2").redis, "unix:///r?db=2");
        assert_eq!(read("reliable+sentinel://a,b/m/1").redis, "redis+sentinel://a,b/m/1");
        for wrong in ["class=", "exec=1", "stale_time=x", "keep=-1"] {
            assert!(Settings::read(&format!("reliable+redis://h?{wrong}")).is_err(), "{wrong}");
        }
    }
}
