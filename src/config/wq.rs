//! The section `wq` of the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_yaml::{Mapping, Value};

use super::paths::from_here;
use super::row::settings;
use super::{Error, Fault};
use model::{Class, format_duration, name_fault};
use wq::{Settings, WhenAway};

settings! {
    /// Settings for notifications.
    #[serde(deny_unknown_fields)]
    pub struct WqSection {
        /// Whether notifications are accepted.
        enabled: bool {
            default: "false",
            how: "`--wq enabled=true`, and so on",
            docs: "make jobs of notifications to the API ([quantumleap.md](quantumleap.md))",
            conf: "Whether the API accepts them.",
        }
        /// The queue for their jobs.
        queue: String {
            default: "default",
            docs: "where their jobs wait",
            conf: "The queue of their jobs.",
        }
        /// The class of their jobs; None = each request names it.
        class: String {
            default: "null",
            docs: "their class; `null`: the header `taskvisor-class` of each request names it",
            conf: "The class of their jobs; null = each request names it in the header taskvisor-class.",
        }
        /// Address and port where notifications come without a token.
        listen: String {
            default: "null",
            default_in_docs: "`null`: no port",
            how: "`--wq listen=127.0.0.1:8668`",
            docs: "a loopback address and port for [QuantumLeap's routes without a token](quantumleap.md#the-port-without-a-token); wants `wq.class`",
            conf: "A loopback address and port that accepts them without a token, as 127.0.0.1:8668; wants a class. null = none.",
        }
        /// Tries after the first one.
        max_retries: u32 {
            default: "0",
            docs: "tries after the first one",
            conf: "Tries after the first one.",
        }
        /// Time from the first failure to the first retry.
        retry_delay: Duration {
            default: "20s",
            docs: "from the first failure to the first retry; doubled for each later one",
            conf: "From the first failure to the first retry; doubled for each later one.",
        }
        /// How long tasks that succeeded are kept.
        success_ttl: Duration {
            default: "null",
            default_in_docs: "`null`: as the option is",
            docs: "how long tasks that succeeded are kept: sets the option `keep_complete`, for all jobs, and keeps any number",
            conf: "How long tasks that succeeded and that failed are kept. These set the broker's options keep_complete and keep_failed, which hold for all its jobs; null = as those are.",
        }
        /// How long tasks that failed are kept.
        failure_ttl: Duration {
            default: "null",
            default_in_docs: "`null`: as the option is",
            docs: "the same of failed tasks: sets `keep_failed`",
        }
        /// What to do with a notification while the broker is away.
        when_away: WhenAway {
            default: "refuse",
            docs: "with `keep` notifications [wait in the state directory](quantumleap.md#when-the-broker-is-away) while the broker is away",
            conf: "What becomes of a notification while the broker does not answer: `refuse` answers 500; `keep` has it wait in the state directory, in order, until the broker is back.",
        }
        /// The directory for samples of how long tasks took.
        telemetry_dir: PathBuf {
            default: "null",
            default_in_docs: "`null`: nowhere",
            how: "`--wq telemetry_dir=DIR`",
            docs: "a directory for [samples](quantumleap.md#what-is-the-same)",
            conf: "Write how long each task took (duration-*.csv) and how many there are to do (gauge-*.csv, once a second) into this directory. A file is written at 1 MiB and at the end. null = nowhere.",
        }
    }
}

impl WqSection {
    /// Reads `NAME=VALUE`, as a line of the section.
    pub fn parse(text: &str) -> Result<WqSection, String> {
        let (name, value) = text.split_once('=').ok_or("this is not NAME=VALUE, like class=Insert")?;
        serde_yaml::from_str(&format!("{name}: {value}")).map_err(|error| error.to_string())
    }

    /// Resolves the section; None = no notifications are accepted.
    pub(super) fn resolve(self) -> Result<Option<Settings>, (&'static str, Error)> {
        let wrong = |key, fault: String| (key, Error::new(Fault::Config, fault));
        let default = Settings::default();
        let queue = self.queue.map_or(default.queue, Into::into);
        if let Some(fault) = name_fault("a queue's name", queue.as_str()) {
            return Err(wrong("wq.queue", fault));
        }
        let class: Option<Class> = self.class.map(Into::into);
        if let Some(fault) = class.as_ref().and_then(|class| name_fault("a class", class.as_str())) {
            return Err(wrong("wq.class", fault));
        }
        if class.as_ref().is_some_and(|class| class.as_str() == Class::EXEC) {
            let message = format!("the class '{}' is that of programs: a notification is none", Class::EXEC);
            let hint = "name the class of a worker, or a class of your own for a pool with `run`";
            return Err(("wq.class", Error::new(Fault::Config, message).hint(hint)));
        }
        let listen = self.listen.map(|listen| loopback(&listen)).transpose()?;
        if listen.is_some() && class.is_none() {
            let message =
                "by wq.listen notifications come without a token, and nothing says which class they have";
            let hint = "set wq.class: else whoever reaches the port chooses the function that runs";
            return Err(("wq.listen", Error::new(Fault::Config, message).hint(hint)));
        }
        let telemetry_dir = self.telemetry_dir.map(from_here).transpose();
        let telemetry_dir = telemetry_dir.map_err(|error| ("wq.telemetry_dir", error))?;
        Ok(self.enabled.unwrap_or_default().then_some(Settings {
            queue,
            class,
            max_retries: self.max_retries.unwrap_or(default.max_retries),
            retry_delay: self.retry_delay.unwrap_or(default.retry_delay),
            success_ttl: self.success_ttl,
            failure_ttl: self.failure_ttl,
            when_away: self.when_away.unwrap_or(default.when_away),
            telemetry_dir,
            listen,
        }))
    }
}

/// An address of this machine alone, and a port.
fn loopback(listen: &str) -> Result<SocketAddr, (&'static str, Error)> {
    let wrong = |message: String, hint| ("wq.listen", Error::new(Fault::Config, message).hint(hint));
    let address: SocketAddr = listen.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
        wrong(
            format!("'{listen}' is nothing to listen on"),
            "an address and a port: 127.0.0.1:8668, '[::1]:8668'",
        )
    })?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err(wrong(
            format!("{listen} is open to other machines, and this port takes no token"),
            "listen on 127.0.0.1, or set api.listen, where each request brings the token",
        )),
    }
}

/// The section for these settings.
pub(super) fn shown(tasks: &Settings) -> Mapping {
    let length = |length: Option<_>| length.map_or(Value::Null, |length| format_duration(length).into());
    Mapping::from_iter([
        ("enabled".into(), true.into()),
        ("queue".into(), tasks.queue.as_str().into()),
        ("class".into(), tasks.class.as_ref().map_or(Value::Null, |class| class.as_str().into())),
        ("max_retries".into(), tasks.max_retries.into()),
        ("retry_delay".into(), length(Some(tasks.retry_delay))),
        ("success_ttl".into(), length(tasks.success_ttl)),
        ("failure_ttl".into(), length(tasks.failure_ttl)),
        ("when_away".into(), tasks.when_away.as_str().into()),
        ("listen".into(), tasks.listen.map_or(Value::Null, |listen| listen.to_string().into())),
        (
            "telemetry_dir".into(),
            tasks.telemetry_dir.as_ref().map_or(Value::Null, |dir| dir.display().to_string().into()),
        ),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Setting;

    fn listen(said: &str) -> Result<Option<SocketAddr>, String> {
        let section = [said, "class=Insert", "enabled=true"].map(|said| WqSection::parse(said).unwrap());
        let section = section.into_iter().fold(WqSection::default(), |before, next| next.over(before));
        let resolved = section.resolve().map_err(|(key, error)| format!("{key}: {error}"))?;
        Ok(resolved.unwrap().listen)
    }

    #[test]
    fn port_without_a_token_is_of_this_machine_and_of_one_class() {
        assert_eq!(listen("queue=q").unwrap(), None);
        for local in ["listen=127.0.0.1:8668", "listen=localhost:8668", "listen='[::1]:8668'"] {
            assert!(listen(local).unwrap().is_some_and(|address| address.port() == 8668), "{local}");
        }
        let open = listen("listen=0.0.0.0:8668").unwrap_err();
        assert!(open.starts_with("wq.listen: 0.0.0.0:8668 is open to other machines"), "{open}");
        assert!(listen("listen=here").unwrap_err().contains("nothing to listen on"));
        let any = WqSection { listen: Some("127.0.0.1:1".into()), ..WqSection::default() };
        assert!(any.resolve().unwrap_err().1.to_string().contains("which class"));
    }
}
