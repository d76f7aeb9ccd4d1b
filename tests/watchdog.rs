//! The watchdog: a supervisor that hangs, and a keeper that is stopped.
#![allow(unsafe_code, missing_docs, clippy::unwrap_used, clippy::wildcard_enum_match_arm)]
// Both support modules report what the machine lacks.
#![allow(clippy::duplicate_mod)]

#[path = "support/sandbox.rs"]
mod sandbox;
#[allow(dead_code)]
mod support;

use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal::{SIGCONT, SIGSTOP};
use sandbox::{Sandbox, Setting, in_all_settings, is_root, kill, wait_until};
use support::{Keeper, SOON, lives, signal, worker};
use wire::keeper::{Order, Report};

/// Not a test: the keeper starts this as its supervisor.
#[test]
fn relay_supervisor() {
    support::relay();
}

/// A fake systemd that listens on a notify socket.
struct Systemd {
    socket: UnixDatagram,
    dir: tempfile::TempDir,
}

impl Systemd {
    fn new() -> Systemd {
        let dir = tempfile::tempdir().unwrap();
        let socket = UnixDatagram::bind(dir.path().join("notify")).unwrap();
        socket.set_read_timeout(Some(SOON)).unwrap();
        Systemd { socket, dir }
    }

    fn address(&self) -> String {
        format!("NOTIFY_SOCKET={}", self.dir.path().join("notify").display())
    }

    fn next(&self) -> String {
        let mut text = [0; 1024];
        let len = self.socket.recv(&mut text).expect("a word to systemd");
        String::from_utf8(text[..len].to_vec()).unwrap()
    }

    /// The messages up to the first one that fits.
    fn until(&self, fits: impl Fn(&str) -> bool) -> Vec<String> {
        let mut words = Vec::new();
        while !words.last().is_some_and(|word: &String| fits(word)) {
            words.push(self.next());
        }
        words
    }
}

#[test]
fn keeper_pings_systemd_while_the_supervisor_reads() {
    let systemd = Systemd::new();
    let before = ["env", &systemd.address(), "WATCHDOG_USEC=200000"];
    let (mut keeper, hello) = Keeper::start_with("cgroup", &before, &[]);
    assert!(hello.notify);
    keeper.order(&[Order::Notify("up".into())]);
    assert_eq!(systemd.next(), "up");
    for _ in 0..5 {
        assert_eq!(systemd.next(), "WATCHDOG=1");
        assert_eq!(keeper.report().0, Report::Ping);
    }
    keeper.shutdown(0);
}

#[test]
fn keeper_does_not_ping_a_watchdog_meant_for_another_process() {
    let systemd = Systemd::new();
    let before = ["env", &systemd.address(), "WATCHDOG_USEC=50000", "WATCHDOG_PID=1"];
    let (mut keeper, _) = Keeper::start_with("cgroup", &before, &[]);
    systemd.socket.set_read_timeout(Some(Duration::from_millis(300))).unwrap();
    assert!(systemd.socket.recv(&mut [0; 64]).is_err());
    keeper.park(worker(1, 1));
    keeper.shutdown(0);
}

#[test]
fn keeper_kills_a_supervisor_that_reads_no_pings_and_keeps_pinging_systemd() {
    let systemd = Systemd::new();
    let before = ["env", &systemd.address(), "WATCHDOG_USEC=800000"];
    let (mut keeper, _) = Keeper::start_with("cgroup", &before, &[]);
    let run = keeper.run(worker(1, 1), "sleep 1000");
    let hung = keeper.supervisor;
    let hello = keeper.next_supervisor();
    assert_eq!(hello.restarts, 1);
    assert!(!lives(hung) && !lives(run.pid), "its tree is ended before the next one comes");
    keeper.order(&[Order::Notify("up".into())]);
    let words = systemd.until(|word| word == "up");
    // One ping for a sign of life, and one for the kill.
    assert!(
        words.len() >= 3 && words[..words.len() - 1].iter().all(|word| word == "WATCHDOG=1"),
        "{words:?}"
    );
    assert_eq!(systemd.next(), "WATCHDOG=1");
    keeper.shutdown(0);
}

#[test]
fn keeper_kills_a_supervisor_with_unread_reports_also_without_systemd() {
    let (mut keeper, hello) = Keeper::start_with("cgroup", &[], &["--silence", "0.6"]);
    assert!(!hello.notify);
    let hung = keeper.supervisor;
    // The keeper's report stays unread.
    keeper.order(&[Order::Spawn(worker(1, 1))]);
    support::wait_until("it is ended", SOON, || !lives(hung));
    assert_eq!(keeper.next_supervisor().restarts, 1);
    keeper.shutdown(0);
}

#[test]
fn keeper_pings_and_kills_a_supervisor_that_hangs_while_idle() {
    let (mut keeper, _) = Keeper::start_with("cgroup", &[], &["--silence", "0.6"]);
    let hung = keeper.supervisor;
    // The supervisor has sent an order, gets no report, and reads nothing any more.
    keeper.order(&[Order::Forget(worker(1, 1))]);
    support::wait_until("it is ended", SOON, || !lives(hung));
    assert_eq!(keeper.next_supervisor().restarts, 1);
    keeper.shutdown(0);
}

/// Makes a pipe that is full, with its reader.
fn full_pipe(path: &Path) -> fs::File {
    nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
    let mut pipe = OpenOptions::new();
    let mut pipe = pipe.read(true).write(true).custom_flags(nix::libc::O_NONBLOCK).open(path).unwrap();
    while pipe.write(&[b'x'; 4096]).is_ok() {}
    pipe
}

#[test]
fn keeper_that_panics_ends_though_nobody_reads_its_stderr() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stderr");
    let _pipe = full_pipe(&path);
    fs::write(dir.path().join("keeper-2-started-said"), "panic").unwrap();
    let with = "f=$0; TASKVISOR_FAILPOINTS=${f%/*}; export TASKVISOR_FAILPOINTS; exec \"$@\" 2>\"$f\"";
    let (mut keeper, _) = Keeper::start_with("cgroup", &["sh", "-c", with, path.to_str().unwrap()], &[]);
    keeper.order(&[Order::Spawn(worker(1, 1))]);
    assert_eq!(keeper.wait().code(), Some(101));
}

#[test]
fn stderr_that_nobody_reads_keeps_no_hung_supervisor_alive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("stderr");
    let mut pipe = full_pipe(&path);
    let before = ["sh", "-c", "f=$0; exec \"$@\" 2>\"$f\"", path.to_str().unwrap()];
    let (mut keeper, _) = Keeper::start_with("cgroup", &before, &["--silence", "0.6"]);
    let hung = keeper.supervisor;
    keeper.order(&[Order::Spawn(worker(1, 1))]);
    support::wait_until("it is ended", SOON, || !lives(hung));
    assert_eq!(keeper.next_supervisor().restarts, 1);
    let mut said = Vec::new();
    support::wait_until("it says how many lines are lost", SOON, || {
        keeper.order(&[Order::Forget(worker(9, 9))]);
        let mut some = [0; 65536];
        let read = pipe.read(&mut some).unwrap_or(0);
        said.extend_from_slice(&some[..read]);
        String::from_utf8_lossy(&said)
            .contains(" 2 lines of the keeper are lost, as nobody read its stderr\n")
    });
    keeper.shutdown(0);
}

#[test]
fn hanging_supervisor_is_replaced_and_its_job_reruns_unspent() {
    let setting = if is_root() { Setting::RootCgroup } else { Setting::Plain };
    let sandbox = Sandbox::new(setting);
    let systemd = Systemd::new();
    let _running = sandbox.start_with(&["-w", "2"], |command| {
        command.env("NOTIFY_SOCKET", systemd.dir.path().join("notify")).env("WATCHDOG_USEC", "2000000");
    });
    systemd.until(|word| word == "READY=1");
    let jid = sandbox.put(&["sleep", "1000"]);
    wait_until("it runs", || sandbox.state(&jid) == "running" && sandbox.job_processes().len() == 1);
    let (hung, first) = (sandbox.one("tv-supervisor"), sandbox.one("sleep"));
    kill(hung, "STOP");
    wait_until("another supervisor is there", || sandbox.one("tv-supervisor") != hung);
    let mut again = None;
    wait_until("the job runs again", || {
        let found = sandbox.processes().into_iter().find(|seen| seen.comm == "sleep" && seen.pid != first);
        again = found.map(|seen| seen.pid);
        again.is_some()
    });
    assert!(!lives(first));
    let job = sandbox.job(&jid);
    assert_eq!((job["attempt"].as_u64(), job["interruptions"].as_u64()), (Some(1), Some(1)), "{job}");
    assert!(sandbox.stderr().contains("has read and ordered nothing for 1.5 s: ending it"));
    sandbox.ok(&["stop", "--kill"]);
    sandbox.assert_nothing_left();
}

#[test]
fn systemd_gets_the_state_of_the_service() {
    let sandbox = Sandbox::new(Setting::Root);
    if !is_root() {
        return sandbox::missing("root");
    }
    let systemd = Systemd::new();
    let mut running = sandbox.start_with(&["-w", "2"], |command| {
        command.env("NOTIFY_SOCKET", systemd.dir.path().join("notify"));
    });
    let words = systemd.until(|word| word.starts_with("STATUS=2 slots"));
    assert!(words.contains(&"READY=1".to_owned()), "{words:?}");
    sandbox.ok(&["job", "wait", &sandbox.put(&["true"])]);
    systemd.until(|word| word == "STATUS=2 slots, 0 busy, 1 complete");
    sandbox.ok(&["stop"]);
    systemd.until(|word| word == "STOPPING=1\nEXTEND_TIMEOUT_USEC=35000000");
    assert!(running.wait().success());
}

#[test]
fn status_reports_a_stopped_keeper() {
    in_all_settings(|sandbox| {
        let _running = sandbox.start(&["-w", "1"]);
        let keeper = sandbox.one("taskvisor");
        signal(keeper, SIGSTOP);
        let mut verdict = None;
        wait_until("it is seen", || {
            verdict = sandbox.run(&["status", "-q"]).status.code();
            verdict == Some(5)
        });
        assert!(sandbox.ok(&["status"]).contains("the keeper is stopped"));
        signal(keeper, SIGCONT);
        wait_until("it goes on", || sandbox.run(&["status", "-q"]).status.success());
    });
}
