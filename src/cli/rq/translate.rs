//! Translates RQ's flags to those of `start`. Nothing here reads files or runs programs.

use std::ffi::OsString;

use super::args::{Asked, Mode, Shared, Strategy, Worker};
use super::module::Module;

/// The call of `start`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Start {
    /// The arguments of `start`.
    pub args: Vec<OsString>,
    /// The broker's URL. It may hold a password.
    pub broker: String,
    /// The same Redis, for the workers.
    pub url: String,
    /// The name of the worker, if it was given one.
    pub name: Option<String>,
    /// Notes on flags that have no meaning here.
    pub notes: Vec<String>,
}

/// Why the flags cannot be translated.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wrong {
    pub what: String,
    pub hint: &'static str,
}

/// Makes the call from the flags, the config module and the environment; flags win.
pub(super) fn start(
    asked: &Asked,
    module: Option<Module>,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Start, Wrong> {
    let module = module.unwrap_or_default();
    let shared = asked.shared();
    let (default, own) = (Worker::default(), if let Asked::Worker(own) = asked { Some(own) } else { None });
    let worker = own.unwrap_or(&default);
    let url = shared.url.clone().unwrap_or(module.url);
    let name = worker.name.clone().or(module.name.filter(|_| own.is_some()));
    let mut query = Vec::new();
    let mut ask =
        |name: &str, value: Option<String>| query.extend(value.map(|value| (name.to_owned(), value)));
    ask("prefix", environment("RQ_KEY_PREFIX"));
    ask("name", name.clone());
    ask("results_ttl", worker.results_ttl.map(|seconds| seconds.to_string()));
    ask("worker_ttl", worker.worker_ttl.map(|seconds| seconds.to_string()));
    ask("maintenance_interval", worker.maintenance_interval.map(|seconds| seconds.to_string()));
    // RQ gives each worker of a pool a scheduler, and `rq worker` one for this flag alone.
    ask("scheduler", own.filter(|own| !own.with_scheduler).map(|_| "0".to_owned()));
    ask("max_jobs", worker.max_jobs.map(|jobs| jobs.to_string()));
    let (address, of_jobs) = address(&url)?;
    let broker = with_query(&address, &query);
    let queues = if shared.queues.is_empty() { module.queues } else { shared.queues.clone() };
    let mut notes = without_meaning(shared, worker);
    if !of_jobs.is_empty() {
        let names = of_jobs.join(", ");
        notes.push(format!(
            "{names} in the URL is for the connections that jobs open, not for the supervisor's"
        ));
    }
    notes.extend(
        module
            .unused
            .iter()
            .map(|key| format!("{key} in the config module is not read: see docs/rq.md, The flags")),
    );
    Ok(Start { args: args(asked, worker, &queues), url, broker, name, notes })
}

/// Options of redis-py that a URL may have for a connection of its own.
const OF_JOBS: [&str; 11] = [
    "client_name",
    "decode_responses",
    "encoding",
    "encoding_errors",
    "health_check_interval",
    "max_connections",
    "retry_on_timeout",
    "socket_connect_timeout",
    "socket_keepalive",
    "socket_timeout",
    "timeout",
];

/// RQ's URL in our form, and the options in it that are for the connections of jobs.
fn address(url: &str) -> Result<(String, Vec<&str>), Wrong> {
    let scheme = url.split_once("://").map_or("", |(scheme, _)| scheme);
    match scheme {
        "redis" | "rediss" | "unix" | "redis+sentinel" | "rediss+sentinel" => Ok(from_redis_py(scheme, url)),
        _ if scheme.starts_with("rq+") => Ok((url.to_owned(), Vec::new())),
        _ => Err(Wrong {
            what: format!("RQ's URL begins with '{scheme}', which is no Redis"),
            hint: "redis://HOST:PORT/DB, rediss://… or unix://PATH",
        }),
    }
}

/// Translates the query of a URL of redis-py. What is not known here stays, and the broker refuses it by name.
fn from_redis_py<'a>(scheme: &str, url: &'a str) -> (String, Vec<&'a str>) {
    let (place, query) = url.split_once('?').unwrap_or((url, ""));
    let (mut place, mut kept, mut of_jobs) = (format!("rq+{place}"), Vec::new(), Vec::new());
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        match (scheme, name) {
            (_, name) if OF_JOBS.contains(&name) => of_jobs.push(name),
            // redis-py lets `db` win over the path.
            ("redis" | "rediss", "db") => {
                let host = place.find("://").map_or(0, |at| at + 3);
                let end = place[host..].find('/').map_or(place.len(), |at| host + at);
                place.truncate(end);
                place += &format!("/{value}");
            }
            ("unix", "password") => kept.push(format!("pass={value}")),
            ("unix", "username") => kept.push(format!("user={value}")),
            (_, "ssl_ca_certs") => kept.push(format!("ca={value}")),
            (_, "ssl_certfile") => kept.push(format!("cert={value}")),
            (_, "ssl_keyfile") => kept.push(format!("key={value}")),
            _ => kept.push(pair.to_owned()),
        }
    }
    let mark = if kept.is_empty() { "" } else { "?" };
    (format!("{place}{mark}{}", kept.join("&")), of_jobs)
}

fn with_query(url: &str, query: &[(String, String)]) -> String {
    let mut url = url.to_owned();
    for (name, value) in query {
        url.push(if url.contains('?') { '&' } else { '?' });
        url += &format!("{name}={}", escaped(value));
    }
    url
}

/// Escapes text for a value in a query.
fn escaped(value: &str) -> String {
    let escape = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b':' | b'{' | b'}' => {
            (byte as char).to_string()
        }
        other => format!("%{other:02X}"),
    };
    value.bytes().map(escape).collect()
}

fn without_meaning(shared: &Shared, worker: &Worker) -> Vec<String> {
    let log = "the supervisor's log has its own format: taskvisor start --log-format";
    let flags = [
        (shared.log_format.is_some(), "--log-format", log),
        (shared.date_format.is_some(), "--date-format", log),
        (worker.disable_job_desc_logging, "--disable-job-desc-logging", "descriptions are not logged"),
    ];
    let given = flags.into_iter().filter(|(given, ..)| *given);
    given.map(|(_, flag, why)| format!("{flag} has no meaning here: {why}")).collect()
}

fn args(asked: &Asked, worker: &Worker, queues: &[String]) -> Vec<OsString> {
    let shared = asked.shared();
    let mut args: Vec<OsString> = Vec::new();
    let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
    for queue in queues {
        say(&["-q", queue]);
    }
    let (workers, level) = match asked {
        Asked::Worker(worker) => (1, &worker.logging_level),
        Asked::Pool(pool) => (pool.num_workers, &pool.logging_level),
    };
    say(&["-w", &workers.to_string(), "-m", mode(shared)]);
    // RQ's workers get the whole environment of their caller, and RQ itself does the retries.
    say(&["--env", "*", "--retries", "0"]);
    match strategy(shared, worker) {
        Strategy::Default => {}
        Strategy::RoundRobin => say(&["--order", "round_robin"]),
        Strategy::Random => say(&["--order", "random"]),
    }
    // A burst of RQ ends when a fetch has found nothing, whatever may come later.
    let idle = match worker.max_idle_time {
        _ if shared.burst => Some(0),
        idle => idle,
    };
    if shared.burst {
        say(&["--burst"]);
    }
    if let Some(jobs) = worker.max_jobs {
        // RQ runs one job before it looks at the number, so 0 means 1.
        say(&["--end-after", &jobs.max(1).to_string()]);
    }
    if let Some(seconds) = idle {
        say(&["--end-when-idle", &format!("{seconds}s")]);
    }
    if let Some(seconds) = worker.job_monitoring_interval {
        // RQ waits this long for a sign of life of a running job.
        say(&["--lease", &format!("{}s", seconds.saturating_add(60))]);
    }
    if let Some(level) = log_level(shared, level.as_deref()) {
        say(&["--log-level", level]);
    }
    args.extend(command(shared, worker));
    args
}

/// The workers' command with its flags.
fn command(shared: &Shared, worker: &Worker) -> Vec<OsString> {
    let mut args: Vec<OsString> = Vec::new();
    let mut say = |words: &[&str]| args.extend(words.iter().map(Into::into));
    say(&["--", &shared.python, "-m", "taskvisor.rq"]);
    let given = [
        ("--serializer", &shared.serializer),
        ("--worker-class", &shared.worker_class),
        ("--job-class", &shared.job_class),
        ("--queue-class", &shared.queue_class),
        ("--connection-class", &shared.connection_class),
    ];
    for (flag, value) in given.iter().filter_map(|(flag, value)| value.as_ref().map(|value| (flag, value))) {
        say(&[flag, value]);
    }
    for handler in &shared.exception_handlers {
        say(&["--exception-handler", handler]);
    }
    if let Some(module) = &shared.config {
        say(&["-c", module]);
    }
    for module in &shared.preload {
        let flag = if module == "auto" { "--preload" } else { "-m" };
        say(&[flag, module]);
    }
    if let Some(seconds) = worker.results_ttl {
        // With an equals sign, as it may be negative.
        say(&[&format!("--results-ttl={seconds}")]);
    }
    if worker.disable_default_exception_handler {
        say(&["-d"]);
    }
    if shared.native {
        say(&["--native"]);
    }
    for dir in &shared.path {
        args.extend(["-P".into(), dir.into()]);
    }
    args
}

/// The last part of the name of the worker class: some of them stand for modes, or orders.
fn kind(shared: &Shared) -> &str {
    let class = shared.worker_class.as_deref().unwrap_or_default();
    if class.starts_with("rq.") { class.rsplit('.').next().unwrap_or_default() } else { "" }
}

fn mode(shared: &Shared) -> &'static str {
    match (shared.mode, kind(shared)) {
        // RQ's SimpleWorker runs jobs in its own process, one after the other.
        (Some(Mode::Prefork), _) | (None, "SimpleWorker") => "prefork",
        (Some(Mode::Fork) | None, _) => "fork",
    }
}

fn strategy(shared: &Shared, worker: &Worker) -> Strategy {
    match (worker.dequeue_strategy, kind(shared)) {
        (Strategy::Default, "RoundRobinWorker") => Strategy::RoundRobin,
        (Strategy::Default, "RandomWorker") => Strategy::Random,
        (other, _) => other,
    }
}

fn log_level(shared: &Shared, level: Option<&str>) -> Option<&'static str> {
    match (shared.verbose, shared.quiet, level.map(str::to_ascii_uppercase).as_deref()) {
        (true, ..) | (false, false, Some("DEBUG")) => Some("debug"),
        (_, true, _) | (_, _, Some("WARNING" | "WARN")) => Some("warn"),
        (_, _, Some("ERROR" | "CRITICAL")) => Some("error"),
        (_, _, Some("INFO")) => Some("info"),
        (_, _, Some(_) | None) => None,
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::args::{Pool, in_words};
    use super::*;

    fn worker(typed: &str) -> Asked {
        let typed: Vec<OsString> = format!("worker {typed}").split_whitespace().map(Into::into).collect();
        Asked::Worker(Worker::try_parse_from(in_words(&typed)).unwrap())
    }

    fn said(asked: &Asked, module: Option<Module>) -> (String, Start) {
        let start = start(asked, module, &|_| None).unwrap();
        let args: Vec<_> = start.args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        (args.join(" "), start)
    }

    #[test]
    fn a_worker_is_a_pool_of_one_that_forks() {
        let (args, start) = said(&worker("-u redis://:pw@db:6380/2 high low"), None);
        assert_eq!(
            args, "-q high -q low -w 1 -m fork --env * --retries 0 -- python3 -m taskvisor.rq",
            "an address is no argument"
        );
        assert_eq!(start.broker, "rq+redis://:pw@db:6380/2?scheduler=0");
        assert_eq!(start.url, "redis://:pw@db:6380/2");
        assert_eq!(start.notes, Vec::<String>::new());
    }

    #[test]
    fn typed_flags_override_the_config_module() {
        let module = || {
            Some(Module {
                url: "redis://m/1".into(),
                queues: vec!["mine".into()],
                name: Some("m 1".into()),
                unused: vec!["REDIS_SSL_KEYFILE".into()],
            })
        };
        let (args, start) = said(&worker("-c settings -s"), module());
        assert!(args.starts_with("-q mine -w 1") && args.ends_with("taskvisor.rq -c settings"), "{args}");
        assert_eq!(start.broker, "rq+redis://m/1?name=m%201");
        assert!(start.notes[0].contains("REDIS_SSL_KEYFILE"), "{:?}", start.notes);
        let (args, start) = said(&worker("-c settings -s -n w1 -u unix:///r.sock?db=1 q"), module());
        assert!(args.starts_with("-q q -w 1"), "{args}");
        assert_eq!(start.broker, "rq+unix:///r.sock?db=1&name=w1");
    }

    #[test]
    fn urls_of_redis_py_are_taken() {
        let broker = |url: &str| {
            let (_, start) = said(&worker(&format!("-s -u {url}")), None);
            assert_eq!(start.url, url, "the workers get it as it is");
            (start.broker, start.notes.len())
        };
        for (url, wanted, notes) in [
            ("redis://h:1?db=5", "rq+redis://h:1/5", 0),
            (
                "redis://u:p%40@h:1/2?db=5&socket_timeout=5&retry_on_timeout=True",
                "rq+redis://u:p%40@h:1/5",
                1,
            ),
            ("unix:///s?db=3&password=a%26b", "rq+unix:///s?db=3&pass=a%26b", 0),
            ("rediss://h/1?ssl_ca_certs=/ca.pem", "rq+rediss://h/1?ca=/ca.pem", 0),
            ("rediss://h/1?ssl_cert_reqs=none", "rq+rediss://h/1?ssl_cert_reqs=none", 0),
        ] {
            assert_eq!(broker(url), (wanted.to_owned(), notes), "{url}");
        }
    }

    #[test]
    fn each_flag_goes_to_supervisor_worker_or_broker() {
        let typed = "-u redis://r -s -b -ds round_robin -v -d -S json -w a.Worker -j a.Job --queue-class a.Queue \
                     --exception-handler a.one --exception-handler a.two -P lib --results-ttl -1 --worker-ttl 9 \
                     --maintenance-interval 8 --job-monitoring-interval 7 --max-jobs 6 --max-idle-time 5 --preload app \
                     --preload auto";
        let (args, start) = said(&worker(typed), None);
        assert_eq!(
            args,
            "-w 1 -m fork --env * --retries 0 --order round_robin --burst --end-after 6 \
             --end-when-idle 0s --lease 67s --log-level debug -- python3 -m taskvisor.rq \
             --serializer json --worker-class a.Worker --job-class a.Job --queue-class a.Queue \
             --exception-handler a.one --exception-handler a.two -m app --preload auto --results-ttl=-1 -d -P lib"
        );
        assert_eq!(
            start.broker,
            "rq+redis://r?results_ttl=-1&worker_ttl=9&maintenance_interval=8&max_jobs=6"
        );
    }

    #[test]
    fn worker_classes_of_rq_become_modes_and_orders() {
        let of = |class: &str| said(&worker(&format!("-u redis://r -w {class}")), None).0;
        assert!(of("rq.SimpleWorker").contains("-m prefork"));
        assert!(of("rq.worker.RandomWorker").contains("--order random"));
        assert!(of("rq.worker.RoundRobinWorker").contains("--order round_robin"));
        assert!(of("mine.SimpleWorker").contains("-m fork"), "what it does is not known");
    }

    #[test]
    fn a_pool_has_its_scheduler_and_no_name() {
        let pool =
            Pool::try_parse_from(["worker-pool", "-u", "redis://r", "-n", "4", "-q", "-l", "INFO"]).unwrap();
        let module = Module { name: Some("m".into()), ..Module::default() };
        let (args, start) = said(&Asked::Pool(pool), Some(module));
        assert!(args.starts_with("-w 4 -m fork"), "{args}");
        assert!(args.contains("--log-level warn"), "{args}");
        assert_eq!((start.broker.as_str(), start.name), ("rq+redis://r", None));
    }

    #[test]
    fn flags_without_effect_are_noted() {
        let (_, start) =
            said(&worker("-u redis://r --log-format x --date-format y --disable-job-desc-logging"), None);
        let flags: Vec<_> = start.notes.iter().filter_map(|note| note.split(' ').next()).collect();
        assert_eq!(flags, ["--log-format", "--date-format", "--disable-job-desc-logging"]);
        let wrong = super::start(&worker("-u http://r"), None, &|_| None).unwrap_err();
        assert_eq!(wrong.what, "RQ's URL begins with 'http', which is no Redis");
    }
}
