//! The page for browsers beside a supervisor: a process of its own, started again when it dies, ended with the supervisor.
//!
//! The supervisor is its parent, and not the keeper. A child of the keeper would be a life, whose end is to be proven before
//! jobs run again, or a stranger, whom nobody ends. The page is neither: it runs no user's code, and nothing waits for it. It
//! has no mark of a life and is in the supervisor's session, so no proof meets it and no job is said to have left it, and
//! the kernel ends it with its parent, however that dies.

use std::io::{self, BufRead, BufReader, PipeReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::{info, warn};

use broker::Complaints;
use config::{Config, Web};
use engine::PageSeen;

/// What the log and `status` say while it does not run.
const WHAT: &str = "the page for browsers does not run";
/// The wait before it is started again; doubled after each start that fails.
const FIRST: Duration = Duration::from_millis(500);
/// The longest of these waits.
const LONGEST: Duration = Duration::from_secs(30);
/// One that has lived so long did not fail to start.
const LIVED: Duration = Duration::from_secs(60);

/// Limit of the lines that tell why it has ended.
const LINES: usize = 4;

/// The page that this supervisor keeps.
#[derive(Clone)]
pub(super) struct Page(Arc<Shared>);

struct Shared {
    how: How,
    seen: PageSeen,
    /// The process, as long as it is not waited for: its pid is nobody else's.
    child: Mutex<Option<Child>>,
    /// Whether it is to read its tokens again as soon as it takes signals. Changed only with `child` locked.
    owes_tokens: AtomicBool,
}

/// How it is started.
struct How {
    listen: SocketAddr,
    args: Vec<String>,
    has_tokens: bool,
    /// Whether the log is read by the one who has started the supervisor, and by nobody else.
    tells_key: bool,
}

impl Page {
    /// The page of these settings, if they have an address for it.
    pub(super) fn of(config: &Config) -> Option<Page> {
        let web = &config.web;
        let how = How {
            listen: web.listen?,
            args: args(config),
            has_tokens: web.login_token_file.is_some() || web.view_token_file.is_some(),
            tells_key: log::is_read_here(&config.log),
        };
        Some(Page(Arc::new(Shared {
            how,
            seen: PageSeen::default(),
            child: Mutex::default(),
            owes_tokens: AtomicBool::new(false),
        })))
    }

    /// Starts it, and whenever it has ended again.
    pub(super) fn start(&self, complaints: &Complaints) -> io::Result<()> {
        let (page, complaints) = (self.clone(), complaints.clone());
        keeper::keep_descriptors();
        // The kernel takes the end of this thread for the end of the parent: it goes on for ever.
        thread::Builder::new().name("page".into()).spawn(move || page.keep(&complaints)).map(drop)
    }

    /// What `status` says of it.
    pub(super) fn seen(&self) -> PageSeen {
        self.0.seen.clone()
    }

    /// Makes the page read its tokens again. One without tokens has no handler: the signal would end it.
    pub(super) fn renew(&self) {
        let child = self.child();
        let Some(child) = child.as_ref().filter(|_| self.0.how.has_tokens) else { return };
        // Before it has told its address the signal would end it.
        let is_ready = self.0.seen.now().url.is_some();
        if is_ready { hang_up(child) } else { self.0.owes_tokens.store(true, Ordering::Relaxed) }
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.0.child.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, complaints: &Complaints) {
        // A port that was free stays its port.
        let (mut wait, mut listen) = (FIRST, self.0.how.listen);
        loop {
            let begun = clock::now();
            let why = self.once(&mut listen, complaints);
            complaints.wrong(WHAT, &why, clock::now());
            wait = if clock::now().since(begun) > LIVED { FIRST } else { wait };
            thread::sleep(wait);
            wait = LONGEST.min(wait * 2);
        }
    }

    /// Starts it and waits for its end; gives why it has ended.
    fn once(&self, listen: &mut SocketAddr, complaints: &Complaints) -> String {
        match self.begin(*listen) {
            Ok(said) => self.hear(said, listen, complaints),
            Err(error) => format!("it cannot be started: {error}"),
        }
    }

    fn begin(&self, listen: SocketAddr) -> io::Result<PipeReader> {
        let (said, says) = io::pipe()?;
        let mut command = Command::new("/proc/self/exe");
        command.arg0("taskvisor").args(["web", "--beside"]).arg(std::process::id().to_string());
        command.arg("--listen").arg(listen.to_string()).args(&self.0.how.args);
        // Its environment has no secret of the supervisor, such as the broker's URL.
        command.env_clear().envs(std::env::vars_os().filter(|(name, _)| name == "TZ" || name == "LANG"));
        command.stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says);
        let mut child = self.child();
        let child = child.insert(command.spawn()?);
        self.0.owes_tokens.store(false, Ordering::Relaxed);
        self.seen_now(|seen| seen.pid = Some(child.id()));
        Ok(said)
    }

    /// Reads what it says until it ends: first its address.
    fn hear(&self, said: PipeReader, listen: &mut SocketAddr, complaints: &Complaints) -> String {
        let (mut last, mut has_listened) = (Vec::<String>::new(), false);
        for line in BufReader::new(said).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).trim().to_owned();
            match address(&line) {
                Some((address, url)) => {
                    (*listen, has_listened) = (address, true);
                    complaints.well(WHAT, clock::now());
                    self.tell(&line, url);
                }
                None if line.is_empty() => {}
                None => {
                    last.truncate(LINES - 1);
                    last.push(line);
                }
            }
        }
        if !has_listened {
            // Another process may have the port that it had.
            *listen = self.0.how.listen;
        }
        // Whoever holds the lock would signal it: the pid is free from here on.
        let mut child = self.child();
        let status = child.take().map(|mut child| child.wait());
        drop(child);
        self.seen_now(|seen| {
            (seen.pid, seen.url, seen.restarts) = (None, None, seen.restarts.saturating_add(1))
        });
        let how = match status {
            Some(Ok(status)) => format!("it has ended ({status})"),
            _ => "it has ended".to_owned(),
        };
        if last.is_empty() { how } else { format!("{how}: {}", last.join("; ")) }
    }

    fn tell(&self, line: &str, url: &str) {
        self.ready(url);
        match &self.0.how {
            How { has_tokens: true, .. } => info!("the page for browsers is at {url}"),
            // A log that is collected is read by many: the key would let in each of them.
            How { tells_key: false, .. } => warn!(
                "the page for browsers is at {url}; nobody can come in by a key that only a log shows: set web.login_token_file"
            ),
            How { tells_key: true, .. } => info!("the page for browsers, for one browser: {line}"),
        }
    }

    /// From here on it takes signals.
    fn ready(&self, url: &str) {
        let child = self.child();
        self.seen_now(|seen| seen.url = Some(url.to_owned()));
        if self.0.owes_tokens.swap(false, Ordering::Relaxed) {
            child.iter().for_each(hang_up);
        }
    }

    fn seen_now(&self, change: impl FnOnce(&mut model::PageStatus)) {
        change(&mut self.0.seen.now());
    }
}

fn hang_up(child: &Child) {
    _ = kill(Pid::from_raw(child.id() as i32), Signal::SIGHUP);
}

/// The arguments by which it is as the settings say.
fn args(config: &Config) -> Vec<String> {
    let Web { path, hosts, login_token_file, view_token_file, read_only, redact, hide_data, .. } =
        &config.web;
    let mut args: Vec<String> = Vec::new();
    // Values are joined to their flags: one may begin with a dash.
    let mut add = |flag: &str, value: &str| args.push(format!("--{flag}={value}"));
    add("run-dir", &config.run_dir.display().to_string());
    add("state-dir", &config.state_dir.display().to_string());
    if !path.is_empty() {
        add("path", path);
    }
    hosts.iter().for_each(|host| add("host", host));
    redact.iter().for_each(|name| add("redact", name));
    for (flag, file) in [("login-token-file", login_token_file), ("view-token-file", view_token_file)] {
        file.iter().for_each(|file| add(flag, &file.display().to_string()));
    }
    let switches = [("--read-only", *read_only), ("--hide-data", *hide_data)];
    args.extend(switches.into_iter().filter(|(_, is_on)| *is_on).map(|(flag, _)| flag.to_owned()));
    args
}

/// The address and the URL without its key in the line that the page prints.
fn address(line: &str) -> Option<(SocketAddr, &str)> {
    let rest = line.strip_prefix("http://")?;
    let address = rest.split('/').next()?.parse().ok()?;
    let end = line.find("enter?key=").unwrap_or(line.len());
    Some((address, &line[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_line_gives_the_address_without_the_key() {
        let line = "http://127.0.0.1:40123/jobs/enter?key=kZ3";
        let listen = "127.0.0.1:40123".parse().unwrap();
        assert_eq!(address(line), Some((listen, "http://127.0.0.1:40123/jobs/")));
        assert_eq!(address("http://[::1]:80/").unwrap().1, "http://[::1]:80/");
        assert_eq!(address("error: failed to listen on 127.0.0.1:80"), None);
    }

    #[test]
    fn settings_become_arguments() {
        let web = Web {
            listen: Some("127.0.0.1:0".parse().unwrap()),
            redact: vec!["-x".into(), "*.token".into()],
            read_only: true,
            ..Web::default()
        };
        let config =
            Config { web, run_dir: "/run/t".into(), state_dir: "/var/t".into(), ..Config::default() };
        let expected =
            ["--run-dir=/run/t", "--state-dir=/var/t", "--redact=-x", "--redact=*.token", "--read-only"];
        assert_eq!(args(&config), expected);
    }
}
