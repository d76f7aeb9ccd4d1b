//! The section `wq` of the file.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use super::flow::yaml;
use super::purpose::Reading;
use super::section::{Section, settings};
use super::wrong::Wrong;
use model::{Class, name_fault};
use wq::{Settings, WhenAway};

settings! {
    /// Settings for notifications.
    #[serde(deny_unknown_fields)]
    pub struct WqSection("wq.") => Settings {
        /// Whether notifications are accepted.
        enabled: bool => (show |_| true.into()) {
            default: "false",
            how: "`--wq enabled=true`, and so on",
            docs: "make jobs of notifications to the API ([quantumleap.md](quantumleap.md))",
            conf: "Whether the API accepts them.",
        }
        /// The queue for their jobs.
        queue: String => (at queue, set queue, show |tasks| yaml(&tasks.queue)) {
            docs: "where their jobs wait",
            conf: "The queue of their jobs.",
        }
        /// The class of their jobs; None = each request names it.
        class: String => (at class, set class, show |tasks| yaml(&tasks.class)) {
            docs: "their class; `null`: the header `taskvisor-class` of each request names it",
            conf: "The class of their jobs; null = each request names it in the header taskvisor-class.",
        }
        /// Address and port where notifications come without a token.
        listen: String => (at listen, set listen, show |tasks| yaml(&tasks.listen)) {
            default_in_docs: "`null`: no port",
            how: "`--wq listen=127.0.0.1:8668`",
            docs: "a loopback address and port for [QuantumLeap's routes without a token](quantumleap.md#the-port-without-a-token); wants `wq.class`",
            conf: "A loopback address and port that accepts them without a token, as 127.0.0.1:8668; wants a class. null = none.",
        }
        /// Tries after the first one.
        max_retries: u32 => (at max_retries) {
            docs: "tries after the first one",
            conf: "Tries after the first one.",
        }
        /// Time from the first failure to the first retry.
        retry_delay: Duration => (at retry_delay) {
            docs: "from the first failure to the first retry; doubled for each later one",
            conf: "From the first failure to the first retry; doubled for each later one.",
        }
        /// How long tasks that succeeded are kept.
        success_ttl: Duration => (at success_ttl) {
            default_in_docs: "`null`: as the option is",
            docs: "how long tasks that succeeded are kept: sets the option `keep_complete`, for all jobs, and keeps any number",
            conf: "How long tasks that succeeded and that failed are kept. These set the broker's options keep_complete and keep_failed, which hold for all its jobs; null = as those are.",
        }
        /// How long tasks that failed are kept.
        failure_ttl: Duration => (at failure_ttl) {
            default_in_docs: "`null`: as the option is",
            docs: "the same of failed tasks: sets `keep_failed`",
        }
        /// What to do with a notification while the broker is away.
        when_away: WhenAway => (at when_away) {
            docs: "with `keep` notifications [wait in the state directory](quantumleap.md#when-the-broker-is-away) while the broker is away",
            conf: "What becomes of a notification while the broker does not answer: `refuse` answers 500; `keep` has it wait in the state directory, in order, until the broker is back.",
        }
        /// The directory for samples of how long tasks took.
        telemetry_dir: PathBuf => (at telemetry_dir) {
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
}

/// Resolves the section; None = no notifications are accepted.
pub(super) fn resolve_tasks(said: WqSection, with: &Reading<'_>) -> Result<Option<Settings>, Wrong> {
    let (enabled, mut tasks) = (said.enabled.unwrap_or_default(), Settings::default());
    // Settings that are not in force are checked too, so that a mistake shows before they are enabled.
    said.write(&mut tasks, with)?;
    if tasks.listen.is_some() && tasks.class.is_none() {
        let message =
            "by wq.listen notifications come without a token, and nothing says which class they have";
        return Err(Wrong::new("wq.listen", message)
            .hint("set wq.class: else whoever reaches the port chooses the function that runs"));
    }
    Ok(enabled.then_some(tasks))
}

fn queue(said: String, key: &'static str, tasks: &mut Settings, _: &Reading<'_>) -> Result<(), Wrong> {
    if let Some(fault) = name_fault("a queue's name", &said) {
        return Err(Wrong::new(key, fault));
    }
    tasks.queue = said.into();
    Ok(())
}

fn class(said: String, key: &'static str, tasks: &mut Settings, _: &Reading<'_>) -> Result<(), Wrong> {
    if let Some(fault) = name_fault("a class", &said) {
        return Err(Wrong::new(key, fault));
    }
    if said == Class::EXEC {
        let message = format!("the class '{said}' is that of programs: a notification is none");
        return Err(Wrong::new(key, message)
            .hint("name the class of a worker, or a class of your own for a pool with `run`"));
    }
    tasks.class = Some(said.into());
    Ok(())
}

/// Sets an address of this machine alone, and a port.
fn listen(said: String, key: &'static str, tasks: &mut Settings, _: &Reading<'_>) -> Result<(), Wrong> {
    // An address alone is read, without asking a name server; this one name is safe to know.
    let address: SocketAddr = said.replace("localhost:", "127.0.0.1:").parse().map_err(|_| {
        Wrong::new(key, format!("'{said}' is nothing to listen on"))
            .hint("an address and a port: 127.0.0.1:8668, '[::1]:8668'")
    })?;
    if !address.ip().is_loopback() {
        let message = format!("{said} is open to other machines, and this port takes no token");
        return Err(Wrong::new(key, message)
            .hint("listen on 127.0.0.1, or set api.listen, where each request brings the token"));
    }
    tasks.listen = Some(address);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, Setting, Surroundings};

    fn resolved(section: WqSection) -> Result<Option<SocketAddr>, Wrong> {
        let with = Reading { purpose: Purpose::Find, around: &Surroundings::default() };
        resolve_tasks(section, &with).map(|tasks| tasks.and_then(|tasks| tasks.listen))
    }

    fn listen(said: &str) -> Result<Option<SocketAddr>, String> {
        let section = [said, "class=Insert", "enabled=true"].map(|said| WqSection::parse(said).unwrap());
        let section = section.into_iter().fold(WqSection::default(), |before, next| next.over(before));
        resolved(section).map_err(|wrong| format!("{}: {wrong}", wrong.key))
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
        assert!(resolved(any).unwrap_err().to_string().contains("which class"));
    }
}
