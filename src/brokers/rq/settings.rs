//! Settings in the URL of a broker of RQ, besides the address of its Redis.

use std::time::Duration;

use broker::Error;

/// The settings of a URL such as `rq+redis://HOST:PORT/DB?prefix=rq`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    /// The URL of the Redis alone. It may hold a password.
    pub url: String,
    /// The prefix of all keys: RQ_KEY_PREFIX.
    pub prefix: String,
    /// The name of the workers in RQ; None = made of host, supervisor and slot.
    pub name: Option<String>,
    /// How long to keep results of jobs that do not set it themselves, in seconds; -1 = for ever.
    pub result_ttl: i64,
    /// Whether to put scheduled jobs when they are due.
    pub schedules: bool,
    /// Time from one cleaning of registries to the next.
    pub maintenance: Duration,
    /// How long RQ remembers a worker after its last sign of life, in seconds.
    pub worker_ttl: u64,
    /// Number of jobs to take in all.
    pub max_jobs: Option<u64>,
}

/// The known names in a URL's query.
const OURS: [&str; 7] =
    ["prefix", "name", "results_ttl", "scheduler", "maintenance_interval", "max_jobs", "worker_ttl"];
/// Seconds that RQ adds to a worker's time to live.
const BEYOND: u64 = 60;

impl Settings {
    pub(super) fn read(url: &str) -> Result<Settings, Error> {
        let url = url.strip_prefix("rq+").unwrap_or(url);
        let (redis, own) = redis_link::split_off(url, &OURS);
        let mut settings = Settings {
            url: redis,
            prefix: "rq".into(),
            name: None,
            result_ttl: 500,
            schedules: true,
            maintenance: Duration::from_secs(600),
            worker_ttl: 90,
            max_jobs: None,
        };
        for (name, value) in own {
            settings.set(name, value).map_err(|what| {
                Error::Url(format!(
                    "the broker's URL: '{name}=' is {what}; of RQ it knows {}",
                    OURS.join(", ")
                ))
            })?;
        }
        Ok(settings)
    }

    /// Sets a value by its name. The error says what the value must be.
    fn set(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        let number = || value.parse::<u64>().map_err(|_| "a number");
        match name {
            "prefix" if is_prefix(value) => self.prefix = value.into(),
            "prefix" => return Err("letters, digits and _.:{}- as in RQ_KEY_PREFIX"),
            "name" if value.is_empty() => return Err("the name of a worker"),
            "name" => self.name = Some(decoded(value).ok_or("the name of a worker, with %20 and the like")?),
            "results_ttl" => {
                // In RQ -1 keeps a result for ever.
                let seconds = value.parse().ok().filter(|seconds| *seconds >= -1);
                self.result_ttl = seconds.ok_or("a number of seconds, or -1")?;
            }
            "scheduler" if matches!(value, "0" | "1") => self.schedules = value == "1",
            "scheduler" => return Err("0 or 1"),
            "maintenance_interval" => self.maintenance = Duration::from_secs(number()?.max(1)),
            "worker_ttl" => self.worker_ttl = number()?.saturating_add(BEYOND),
            // The only one of `OURS` that is left.
            _ => self.max_jobs = Some(number()?),
        }
        Ok(())
    }
}

/// The URL as people may see it, with only the parts that identify the broker.
pub(super) fn shown(url: &str) -> String {
    let shown = broker::without_secrets(url);
    match Settings::read(url) {
        Ok(Settings { prefix, .. }) if prefix != "rq" => {
            let mark = if shown.contains('?') { '&' } else { '?' };
            format!("{shown}{mark}prefix={prefix}")
        }
        Ok(_) | Err(_) => shown,
    }
}

/// Identifies a broker of RQ: the Redis, and the prefix.
pub(super) fn identity(shown: &str) -> String {
    match Settings::read(shown) {
        Ok(Settings { url, prefix, .. }) => format!("rq {prefix} {}", redis_link::identity(&url)),
        Err(_) => shown.to_owned(),
    }
}

/// Decodes percent-encoded text.
fn decoded(text: &str) -> Option<String> {
    let mut parts = text.split('%');
    let mut bytes = parts.next()?.as_bytes().to_vec();
    for part in parts {
        let (code, rest) = part.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(code, 16).ok()?);
        bytes.extend(rest.as_bytes());
    }
    String::from_utf8(bytes).ok()
}

fn is_prefix(text: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:{}-".contains(&byte);
    !text.is_empty() && text.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_has_the_redis_and_the_settings_of_rq() {
        let read = |url: &str| Settings::read(url).unwrap();
        let plain = read("rq+redis://u:p@h:1/2");
        assert_eq!((&*plain.url, &*plain.prefix, plain.result_ttl), ("redis://u:p@h:1/2", "rq", 500));
        let all =
            read("rq+rediss://h?prefix={x}&ca=/f&name=w&results_ttl=-1&scheduler=0&max_jobs=3&worker_ttl=9");
        assert_eq!((&*all.url, &*all.prefix, all.result_ttl), ("rediss://h?ca=/f", "{x}", -1));
        assert_eq!((all.name.as_deref(), all.schedules, plain.schedules), (Some("w"), false, true));
        assert_eq!(read("rq+redis://h?name=a%20b%3A1").name.as_deref(), Some("a b:1"));
        assert_eq!((all.max_jobs, plain.max_jobs), (Some(3), None));
        assert_eq!((all.worker_ttl, plain.worker_ttl), (69, 90));
        assert_eq!(read("rq+redis+sentinel://a,b/m/1").url, "redis+sentinel://a,b/m/1");
        for wrong in [
            "prefix=",
            "prefix=a%20",
            "name=",
            "results_ttl=x",
            "results_ttl=-2",
            "scheduler=no",
            "max_jobs=x",
            "worker_ttl=-1",
        ] {
            assert!(Settings::read(&format!("rq+redis://h?{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn prefix_is_part_of_the_identity_and_the_password_is_hidden() {
        assert_eq!(shown("rq+redis://u:s3cret@h/1?prefix=x&name=w"), "rq+redis://h/1?prefix=x");
        assert_eq!(shown("rq+unix:///r?db=2&prefix=x"), "rq+unix:///r?db=2&prefix=x");
        assert_eq!(shown("rq+redis://h/1"), "rq+redis://h/1");
        assert_eq!(identity("rq+redis://H"), identity("rq+redis://h:6379/0?prefix=rq"));
        assert_ne!(identity("rq+redis://h"), identity("rq+redis://h?prefix=x"));
        assert_ne!(identity("rq+redis://h"), redis_link::identity("redis://h"));
    }
}
