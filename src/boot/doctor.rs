//! The doctor beside a supervisor: what this machine lacks for it, as `doctor` finds it, for clients of the API.
//!
//! Its checks block, fork, and measure the disk, so each look is a process of its own, as the page for browsers is: a child
//! of the supervisor, in its session, and no life. Unlike the page it keeps the supervisor's rights, cgroup and limits: it
//! looks at what this supervisor has. It knows no secret, and so no server: that one the supervisor asks itself.

use std::ffi::OsString;
use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::sync::watch::{self, Receiver};
use tokio::time::timeout;

use super::seen::Seen;
use broker::{Address, Broker, Error, Place};
use config::Config;
use engine::Examine;
use model::{Diagnosis, Finding};

/// Limits of a look: how long it may take, and the bytes it may say.
const LIMITS: Limits = Limits { time: Duration::from_secs(10), bytes: 256 << 10 };
/// How long the server of the jobs may take.
const SERVER: Duration = Duration::from_secs(5);
/// Variables that it has of the supervisor's: none of them is a secret.
const PASSED: [&str; 4] = ["LANG", "PATH", "TASKVISOR_WITHOUT", "TZ"];
/// Limit of the doctor's output in an error, in bytes, when that output is not a diagnosis.
const TOLD: usize = 500;

#[derive(Clone, Copy)]
struct Limits {
    time: Duration,
    bytes: usize,
}

type Answer = Result<Diagnosis, String>;

/// How to have this machine looked at for this supervisor.
pub(super) fn examine(config: &Config, seen: &Seen, broker: &Arc<Broker>) -> Examine {
    let is_server = config.broker.place() == Place::Server;
    let (args, seen) = (args(config), seen.clone());
    let looks = Looks::new(LIMITS, move || command(&args, seen.slots()));
    let (broker, address) = (broker.clone(), config.broker.clone());
    Arc::new(move || {
        let (mut answer, broker, address) = (looks.ask(), broker.clone(), address.clone());
        Box::pin(async move {
            let server = async { if is_server { Some(server(&address, &broker).await) } else { None } };
            let found = async { answer.wait_for(Option::is_some).await.ok().and_then(|found| found.clone()) };
            let (found, server) = tokio::join!(found, server);
            let mut checks = found.ok_or("the supervisor is ending")??.checks;
            checks.extend(server);
            Ok(Diagnosis::of(checks))
        })
    })
}

/// Whether the server answers this supervisor.
async fn server(address: &Address, broker: &Broker) -> Finding {
    let asked = async { Ok::<_, Error>((broker.counts().await?.len(), address.concern().await?)) };
    let asked = match timeout(SERVER, asked).await {
        Ok(asked) => asked.map_err(|error| error.to_string()),
        Err(_) => Err(format!("{address} has not answered within {} s", SERVER.as_secs())),
    };
    Finding::of_server(&address.to_string(), asked)
}

/// The looks, of which there is one at a time: whoever asks meanwhile gets the same answer.
struct Looks {
    limits: Limits,
    command: Box<dyn Fn() -> Command + Send + Sync>,
    under_way: Mutex<Option<Receiver<Option<Answer>>>>,
}

impl Looks {
    fn new(limits: Limits, command: impl Fn() -> Command + Send + Sync + 'static) -> Arc<Looks> {
        Arc::new(Looks { limits, command: Box::new(command), under_way: Mutex::default() })
    }

    /// The answer to come of the look that is under way, or of a new one.
    fn ask(self: &Arc<Looks>) -> Receiver<Option<Answer>> {
        let mut under_way = self.under_way();
        if let Some(answer) = &*under_way {
            return answer.clone();
        }
        let (tell, answer) = watch::channel(None);
        let looks = self.clone();
        // The kernel takes the end of this thread for the end of the parent: it waits for the child.
        let begun = thread::Builder::new().name("doctor".into()).spawn(move || {
            looks.once(|answer| drop(tell.send_replace(Some(answer))));
            *looks.under_way() = None;
        });
        match begun {
            Ok(_) => under_way.insert(answer).clone(),
            Err(error) => watch::channel(Some(Err(not_begun(&error)))).1,
        }
    }

    fn under_way(&self) -> MutexGuard<'_, Option<Receiver<Option<Answer>>>> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn once(&self, tell: impl FnOnce(Answer)) {
        let (mut child, mut said) = match begin((self.command)()) {
            Ok(begun) => begun,
            Err(error) => return tell(Err(not_begun(&error))),
        };
        match hear(&mut said, self.limits) {
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(found) => tell(Ok(found)),
                Err(_) => return tell(Err(odd(child.wait(), &text))),
            },
            Err(why) => {
                // With what it has started, which would hang on.
                _ = killpg(Pid::from_raw(child.id() as i32), Signal::SIGKILL);
                tell(Err(format!("the doctor {why}; it was ended")));
            }
        }
        // The kernel may hold up the end, as for a disk that is away: nobody waits for that but the next look, which has
        // the same answer until then.
        _ = child.wait();
    }
}

fn not_begun(error: &io::Error) -> String {
    format!("the doctor cannot be started: {error}")
}

fn begin(mut command: Command) -> io::Result<(Child, PipeReader)> {
    let (said, says) = io::pipe()?;
    command.stdin(Stdio::null()).stdout(says.try_clone()?).stderr(says).process_group(0);
    keeper::keep_descriptors();
    Ok((command.spawn()?, said))
}

/// All that it says until it ends.
fn hear(said: &mut PipeReader, limits: Limits) -> Result<Vec<u8>, String> {
    let (until, mut text, mut piece) = (clock::now() + limits.time, Vec::new(), [0; 4096]);
    loop {
        let left = until.since(clock::now());
        if left.is_zero() {
            return Err(format!("was not done within {} s", limits.time.as_secs_f64()));
        }
        let mut sources = [PollFd::new(said.as_fd(), PollFlags::POLLIN)];
        // Rounded up: less than a millisecond would be no wait at all.
        let wait = PollTimeout::try_from(left + Duration::from_millis(1)).unwrap_or(PollTimeout::MAX);
        match poll(&mut sources, wait) {
            Ok(0) | Err(Errno::EINTR) => continue,
            Ok(_) => {}
            Err(errno) => return Err(format!("cannot be heard: {errno}")),
        }
        match said.read(&mut piece) {
            Ok(0) => return Ok(text),
            Ok(count) => text.extend_from_slice(&piece[..count]),
            Err(error) => return Err(format!("cannot be heard: {error}")),
        }
        if text.len() > limits.bytes {
            return Err(format!("said more than {} bytes", limits.bytes));
        }
    }
}

/// The error for output that is not a diagnosis: how the doctor ended, and the beginning of its output.
fn odd(ended: io::Result<std::process::ExitStatus>, text: &[u8]) -> String {
    let how = ended.map_or_else(|error| error.to_string(), |status| status.to_string());
    let text = String::from_utf8_lossy(&text[..text.len().min(TOLD)]).trim().replace('\n', "; ");
    format!("the doctor has found nothing ({how}): {text}")
}

fn command(args: &[OsString], slots: u64) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg0("taskvisor").args(["doctor", "--json", "--beside"]).arg(std::process::id().to_string());
    command.arg(format!("--slots={slots}")).args(args);
    command
        .env_clear()
        .envs(std::env::vars_os().filter(|(name, _)| PASSED.iter().any(|known| name == known)));
    command
}

/// The arguments by which it looks where this supervisor has its files. Values are joined to their flags: one may begin
/// with a dash.
fn args(config: &Config) -> Vec<OsString> {
    let joined = |flag: &str, value: &std::path::Path| {
        let mut joined = OsString::from(flag);
        joined.push(value);
        joined
    };
    let broker = match config.broker.place() {
        Place::File(path) => joined("--broker=sqlite:", &path),
        Place::Supervisor => "--broker=memory:".into(),
        Place::Server => "--no-store".into(),
    };
    vec![joined("--run-dir=", &config.run_dir), joined("--state-dir=", &config.state_dir), broker]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(script: &'static str, limits: Limits) -> Arc<Looks> {
        Looks::new(limits, move || {
            let mut command = Command::new("sh");
            command.args(["-c", script]);
            command
        })
    }

    fn answer(mut asked: Receiver<Option<Answer>>) -> Answer {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { asked.wait_for(Option::is_some).await.unwrap().clone().unwrap() })
    }

    #[test]
    fn look_that_hangs_is_ended_with_what_it_has_started() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pid");
        let (limits, at) = (Limits { time: Duration::from_millis(300), ..LIMITS }, path.clone());
        let looks = Looks::new(limits, move || {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 1000 & echo $! >\"$0\"; wait"]).arg(&at);
            command
        });
        let (first, second) = (looks.ask(), looks.ask());
        assert!(first.same_channel(&second), "a second one was begun");
        let why = answer(first).unwrap_err();
        assert_eq!(why, "the doctor was not done within 0.3 s; it was ended");
        // With the start of a loaded machine the script may not have come so far; else its child ends with it.
        if let Ok(pid) = std::fs::read_to_string(&path) {
            let stat = format!("/proc/{}/stat", pid.trim());
            let lives = || std::fs::read_to_string(&stat).is_ok_and(|stat| !stat.contains(") Z "));
            let end = clock::now() + Duration::from_secs(20);
            while lives() && clock::now() < end {
                thread::yield_now();
            }
            assert!(!lives(), "{stat} is there");
        }
    }

    #[test]
    fn look_that_says_too_much_or_nothing_of_use_is_told_in_words() {
        let why = answer(of("yes", Limits { bytes: 10_000, ..LIMITS }).ask()).unwrap_err();
        assert_eq!(why, "the doctor said more than 10000 bytes; it was ended");
        let why = answer(of("echo no settings; exit 3", LIMITS).ask()).unwrap_err();
        assert_eq!(why, "the doctor has found nothing (exit status: 3): no settings");
    }

    #[test]
    fn each_look_is_a_new_one_once_the_last_has_ended() {
        const WELL: &str = r#"echo '{"schema":"taskvisor.doctor/1","well":true,"checks":[]}'"#;
        let looks = of(WELL, LIMITS);
        let first = looks.ask();
        assert_eq!(answer(first.clone()), Ok(Diagnosis::of(Vec::new())));
        while looks.under_way().is_some() {
            thread::yield_now();
        }
        assert!(!looks.ask().same_channel(&first));
    }
}
