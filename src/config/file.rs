//! The settings file: YAML in which a misspelled key is an error.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::api::resolve_api;
use super::config::Config;
use super::flow::yaml;
use super::identity::socket_group;
use super::kinds::of_file;
use super::log::LogSection;
use super::pool::Pool;
use super::positions::{Source, repetition};
use super::purpose::Reading;
use super::route::{RouteSection, RouteTo};
use super::row::{Flag, Kind, Setting, complete};
use super::section::settings;
use super::text::read_text;
use super::values::of_section;
use super::web::WebSection;
use super::wq::resolve_tasks;
use super::wrong::Wrong;
use super::{ApiSection, Error, Fault, WqSection};
use model::suggestion;

/// The largest file of settings, in bytes.
const SIZE_MAX: u64 = 1 << 20;

/// Limit of the opening brackets and braces in the file. The parser takes quadratic time in those that are open at once:
/// 100,000 would keep it busy for half a minute.
const BRACKETS_MAX: usize = 5_000;

settings! {
    /// The content of the file. Everything is optional.
    #[serde(deny_unknown_fields)]
    pub struct File("") => Config {
        /// The directory for data that must last.
        state_dir: PathBuf => (at state_dir) {
            restart: true,
            example: "/var/lib/taskvisor",
            default_in_docs: "root: `/var/lib/taskvisor`; others: `$XDG_STATE_HOME/taskvisor`, else `~/.local/state/taskvisor`",
            flags: &[
                Flag::new("state_dir", "state-dir", "DIR", Kind::Path, "Where the store and the output of jobs are kept").env("TASKVISOR_STATE_DIR").everywhere(),
            ],
            docs: "store and output of jobs. Commands about jobs refuse a supervisor with another one",
            conf: "Where what must last is kept: the store and the output of jobs. Made with mode 0700; others may pass through it, and see nothing, where a pool has both sandbox and user. Default: $XDG_STATE_HOME/taskvisor or ~/.local/state/taskvisor; for root /var/lib/taskvisor.",
        }
        /// The directory for the socket.
        run_dir: PathBuf => (at run_dir) {
            restart: true,
            example: "/run/taskvisor",
            default_in_docs: "root: `/run/taskvisor`; others: `$XDG_RUNTIME_DIR/taskvisor`, else `/tmp/taskvisor-UID`",
            flags: &[
                Flag::new("run_dir", "run-dir", "DIR", Kind::Path, "Where the supervisor's socket is").env("TASKVISOR_RUN_DIR").everywhere(),
            ],
            docs: "the socket",
            conf: "Where the socket is. Default: $XDG_RUNTIME_DIR/taskvisor or /tmp/taskvisor-UID; for root /run/taskvisor.",
        }
        /// The group whose members may use the socket.
        socket_group: String => (at socket_group, set group, show |config| yaml(&config.socket_group.as_ref().map(|group| &group.name))) {
            restart: true,
            default_in_docs: "`null`: nobody",
            docs: "a group whose members may use the socket, and so [run anything as the supervisor's user](security.md#who-is-trusted)",
            conf: "A group whose members may use the socket, besides the supervisor's user and root. They can then run anything as the supervisor's user. It is opened with mode 0660, and the directory with 0710.",
        }
        /// The URL of the broker.
        broker: String => (at broker, show |config| config.broker.to_string().into()) {
            restart: true,
            example: "sqlite:/var/lib/taskvisor/store.db",
            default_in_docs: "`sqlite:` with `store.db` in `state_dir`",
            flags: &[
                Flag::new("broker", "broker", "URL", Kind::Text, "Where jobs wait: sqlite:PATH, memory:, [rq+|reliable+]redis://HOST, sqs://REGION").short('b').env("TASKVISOR_BROKER").everywhere(),
            ],
            docs: "[where jobs wait](brokers.md). Where flag or variable name another broker than the local supervisor's, `put`, `job`, `queue` and the like go there; `status`, `reload` and the like refuse",
            conf: "Where jobs wait: sqlite:PATH, memory: (gone when the supervisor ends), redis://HOST:PORT/DB or sqs://REGION. Default: store.db in state_dir.",
        }
        /// Rules that send new jobs to another broker.
        route: Vec<RouteSection> => (at routes, show |config| yaml(&config.routes.iter().map(RouteTo::shown).collect::<Vec<_>>())) {
            restart: true,
            docs: "new jobs of some classes [go to another broker](#move-to-another-broker)",
            conf: "New jobs of some classes go to another broker instead, all of them or a share, while a team moves from one to the other: [{classes: [mail.*], percent: 10, to: redis://HOST:PORT/DB}]. The first rule that takes a job counts.",
        }
        /// Length of a lease.
        lease: Duration => (at settings.lease) {
            flags: &[
                Flag::new("lease", "lease", "DURATION", Kind::Duration, "How long a lease on a job lasts; the supervisor renews it while the job runs [default: {}]"),
            ],
            docs: "how long this supervisor holds a job unless it renews the lease, each third of that time. At least twice the grace and 4 s",
            conf: "How long a job belongs to this supervisor without a renewal. Renewed at a third of it. A supervisor that hangs has its jobs killed before their leases end, so that no job ever runs twice at a time.",
        }
        /// Time from the order to stop to the last KILL.
        stop_deadline: Duration => (at settings.stop_deadline) {
            flags: &[
                Flag::new("stop_deadline", "stop-deadline", "DURATION", Kind::Duration, "From the order to stop to the last KILL [default: {}]"),
            ],
            docs: "from the order to stop to the last KILL; TERM is sent one grace before it",
            conf: "From the order to stop to the last KILL. TERM is sent one grace before it; a second order goes on to the next stage at once.",
        }
        /// Whether held jobs make the supervisor degraded.
        held_degrades: bool => (at settings.held_degrades) {
            docs: "whether [held](guarantees.md#the-job) jobs make the verdict `degraded`",
            conf: "Whether jobs that are held for a person make the verdict of status degraded, until somebody retries or discards the last of them. With false they are only counted: in status, in queue list and in the metrics.",
        }
        /// How the supervisor logs, and how much output of jobs it keeps.
        log: LogSection => (at log) {
            restart: true,
            conf: "The supervisor's own log, and what is kept of the output of jobs and workers. A size is a number with B, kB, MB, GB, KiB, MiB, GiB or TiB.",
        }
        /// The API over TCP.
        api: ApiSection => (at api, set api, show |config| of_section::<ApiSection>(config.api.as_ref())) {
            conf: "The API of the socket over TCP, too (docs/api.md). Plain HTTP: for other machines put a proxy with TLS before it.",
        }
        /// The page for browsers.
        web: WebSection => (at web) {
            restart: true,
            conf: "The page for browsers (docs/web.md).",
        }
        /// Settings for notifications.
        wq: WqSection => (at tasks, set tasks, show |config| of_section::<WqSection>(config.tasks.as_ref())) {
            restart: true,
            conf: "Notifications of context brokers become jobs, as in QuantumLeap's work queue (docs/quantumleap.md).",
        }
        /// The pools, in their order.
        pools: Vec<Pool> {
            conf: "Pools of equal workers. null is the default of every setting.",
        }
    }
}

fn group(said: String, key: &'static str, config: &mut Config, _: &Reading<'_>) -> Result<(), Wrong> {
    config.socket_group = Some(socket_group(&said).map_err(|error| Wrong::at(key, error))?);
    Ok(())
}

fn api(said: ApiSection, _: &str, config: &mut Config, with: &Reading<'_>) -> Result<(), Wrong> {
    config.api = resolve_api(said, with)?;
    Ok(())
}

fn tasks(said: WqSection, _: &str, config: &mut Config, with: &Reading<'_>) -> Result<(), Wrong> {
    config.tasks = resolve_tasks(said, with)?;
    Ok(())
}

of_file!(Vec<RouteSection>: &[], Vec<Pool>: Pool::ROWS);

/// A row without its text or default is found here.
const _: () = assert!(complete(File::ROWS), "a setting without default or docs");

/// Reads a file, or its text from `instead` if that has the settings in force. Keeps the text, to point at errors.
pub(super) fn read(path: &Path, instead: Option<&Path>) -> Result<(File, Source), Error> {
    let name = path.display().to_string();
    let text = read_text(instead.unwrap_or(path), SIZE_MAX)
        .map_err(|error| Error::new(Fault::Config, format!("failed to read {name}: {error}")))?;
    // Some editors begin a file with this mark.
    let text = text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text);
    // The file was rather cut off than meant to be empty: the defaults would replace every pool.
    if text.trim().is_empty() {
        return Err(Error::new(Fault::Config, format!("{name} is empty")));
    }
    let file = File::parse(&text, &name)?;
    Ok((file, Source::new(name, text)))
}

impl File {
    /// Parses the text; `name` is the file's name for errors.
    pub fn parse(text: &str, name: &str) -> Result<File, Error> {
        let brackets = text.bytes().filter(|byte| matches!(byte, b'[' | b'{')).count();
        if brackets > BRACKETS_MAX {
            let message =
                format!("{name} has {brackets} opening brackets and braces, {BRACKETS_MAX} are the most");
            return Err(
                Error::new(Fault::Config, message).hint("write lists and maps with a line for each entry")
            );
        }
        // An empty document means an empty map.
        serde_yaml::from_str::<Option<File>>(text)
            .map(Option::unwrap_or_default)
            .map_err(|error| explain(&error, text, name))
    }
}

/// The parser's error, with the name that was probably meant.
fn explain(error: &serde_yaml::Error, text: &str, name: &str) -> Error {
    let said = error.to_string();
    // serde puts names in backticks: the one that was typed, and then those that it knows.
    let quoted: Vec<&str> = said.split('`').skip(1).step_by(2).collect();
    let mut at = error.location().map(|location| (location.line(), location.column()));
    let mut hint = None;
    // The last one: what was typed may hold these words, too.
    let mut message = match said.rfind(" at line ") {
        Some(end) => said[..end].to_string(),
        None => said.clone(),
    };
    if let (Some((typed, known)), true) = (quoted.split_first(), said.contains("unknown field")) {
        message = format!("unknown setting '{typed}'");
        hint = suggestion(typed, known);
    } else if let (Some(key), true) = (quoted.first(), said.contains("duplicate field")) {
        message = format!("the setting '{key}' is given twice");
        // The parser's own place is that of the map.
        at = repetition(text, key).or(at);
    } else if let (Some((typed, known)), true) = (quoted.split_first(), said.contains("unknown variant")) {
        hint = suggestion(typed, known);
    }
    if let Some((what, instead)) = of_another_kind(&message) {
        (message, hint) = (what, instead);
    }
    if said.contains("more than one document") {
        message = "a second document begins here, and settings are one document".into();
        hint = Some("remove the line '---' or '...' that ends the first one".into());
        // The parser names no place.
        at = second_document(text).map(|line| (line, 1));
    }
    let place = match at {
        Some((line, column)) => format!("{name}:{line}:{column}"),
        None => name.to_string(),
    };
    Error { fault: Fault::Config, place: Some(place), message, hint }
}

/// The line on which a second document begins: that of a `---` behind anything but directives and comments, or the first
/// line with anything on it behind a `...`. YAML lets neither stand at the beginning of a line within a text.
fn second_document(text: &str) -> Option<usize> {
    let is_marker = |line: &str, marker: &str| {
        line.strip_prefix(marker).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
    };
    let (mut begun, mut ended) = (false, false);
    for (line, number) in text.lines().zip(1..) {
        let says_nothing = line.trim().is_empty() || line.starts_with(['#', '%']);
        let begins = is_marker(line, "---");
        if (begins && begun) || (ended && !says_nothing) {
            return Some(number);
        }
        ended |= is_marker(line, "...");
        begun |= !says_nothing;
    }
    None
}

/// The message for a text, a list or a map where something else belongs, and what to write instead. The parser would show all of
/// the text: that of another file, if the wrong one was named.
fn of_another_kind(message: &str) -> Option<(String, Option<String>)> {
    let (path, said) = message.split_once("invalid type: ")?;
    let (found, expected) = said.rsplit_once(", expected ")?;
    let text = found.strip_prefix("string \"").map(|text| text.trim_end_matches('"'));
    let found = if text.is_some() {
        "a text"
    } else if found == "map" {
        "a map"
    } else if found == "sequence" {
        "a list"
    } else {
        return None;
    };
    if expected == "field identifier" {
        return Some((format!("{path}a name of a setting is expected, and it is {found}"), None));
    }
    if path.is_empty() {
        let what = format!("this is no file of settings: it is {found}, and settings are expected");
        return Some((what, Some("write each one as NAME: VALUE, such as 'lease: 1m'".into())));
    }
    let key = path.trim_end_matches(": ").rsplit('.').next().unwrap_or_default();
    let is_name = |text: &&str| text.len() <= 60 && text.bytes().all(|byte| byte.is_ascii_graphic());
    let (expected, hint) = match expected {
        "a sequence" => {
            let entry = text.filter(is_name).unwrap_or("…");
            ("a list", Some(format!("write a list, also of one entry: {key}: [{entry}]")))
        }
        other if other.starts_with("struct ") => ("a map of settings", None),
        other => (other, None),
    };
    Some((format!("{path}it is {found}, and {expected} is expected"), hint))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let error = File::parse(text, "t.yaml").unwrap_err();
        let hint = error.hint.as_ref().map(|hint| format!(" | {hint}")).unwrap_or_default();
        assert_eq!(format!("{error}{hint}"), expected);
    }

    #[test]
    fn typing_error_is_reported_with_place_and_suggestion() {
        check("leese: 10s\n", "t.yaml:1:1: unknown setting 'leese' | did you mean 'lease'?");
        check(
            "lease: 10s\npools:\n  - name: a\n    workers: 2\n  - name: b\n    wokers: 8\n    grace: 1s\n",
            "t.yaml:6:5: unknown setting 'wokers' | did you mean 'workers'?",
        );
        check(
            "log:\n  colour: true\n",
            "t.yaml:2:3: unknown setting 'colour' | known here: format, level, job_cap, quota, keep, dir, rotate",
        );
    }

    #[test]
    fn a_key_given_twice_is_refused_where_it_is_repeated() {
        check(
            "lease: 10s\nbroker: 'memory:'\nlease: 20s\n",
            "t.yaml:3:1: the setting 'lease' is given twice",
        );
    }

    #[test]
    fn wrong_value_is_reported_with_its_place() {
        check(
            "stop_deadline: soon\n",
            "t.yaml:1:16: stop_deadline: 'soon' is no duration like 250ms, 10s, 1m30s, 2h or 1d",
        );
        check(
            "log:\n  format: jsn\n",
            "t.yaml:2:11: log.format: unknown variant `jsn`, expected one of `auto`, `text`, `json`, `journald` | did you mean 'json'?",
        );
    }

    #[test]
    fn value_of_another_kind_is_refused_with_what_to_write() {
        check(
            "pools:\n  - name: a\n    queues: default\n",
            "t.yaml:3:13: pools[0].queues: it is a text, and a list is expected | write a list, also of one entry: queues: [default]",
        );
        check(
            "pools:\n  default:\n    workers: 2\n",
            "t.yaml:2:3: pools: it is a map, and a list is expected | write a list, also of one entry: pools: […]",
        );
    }

    #[test]
    fn file_that_is_none_of_settings_is_not_shown() {
        check(
            "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/sh\n",
            "t.yaml:1:1: this is no file of settings: it is a text, and settings are expected | write each one as NAME: VALUE, such as 'lease: 1m'",
        );
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        for text in ["", "# only words\n", "---\n"] {
            assert_eq!(File::parse(text, "t.yaml").unwrap(), File::default());
        }
    }
}
