//! Shared by the tests: waiting, and a keeper whose supervisor is the test itself.

mod missing;

use std::collections::VecDeque;
use std::fs;
use std::io::{IoSliceMut, Read, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use model::{Exit, SlotId, WorkerId};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, send, sendmsg};
use wire::keeper::{Hello, Order, Report, Step};
use wire::program::{Failed, Program, Said};

#[allow(unused_imports, reason = "each test binary uses a part of this")]
pub use missing::missing;

pub const SOON: Duration = Duration::from_secs(40);

/// Waits for a condition with a deadline.
pub fn wait_until(what: &str, deadline: Duration, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < deadline, "waited {deadline:?} in vain until {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub fn worker(index: u16, generation: u32) -> WorkerId {
    WorkerId { slot: SlotId { pool: 0, index }, generation }
}

/// Whether a process exists and is no zombie.
pub fn lives(pid: i32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(") ").unwrap().1.starts_with(['Z', 'X']))
}

/// The CPU time a process has used, by the scheduler's own count.
pub fn cpu(pid: i32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{pid}/schedstat")).unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

pub fn signal(pid: i32, signal: nix::sys::signal::Signal) {
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
}

/// With this code the supervisor of a test leaves a process behind.
pub const LEAVES: u8 = 200;

/// The supervisor process of a test: hands its socket to the test, and exits when the test says so.
#[expect(clippy::zombie_processes, reason = "the keeper reaps it")]
pub fn relay() {
    let Some(path) = std::env::var_os("TV_RELAY") else { return };
    let keeper = keeper::inherited_socket().expect("a keeper started us");
    let mut stream = UnixStream::connect(path).unwrap();
    let pid = std::process::id().to_le_bytes();
    let fds = [keeper.as_raw_fd()];
    let control = [ControlMessage::ScmRights(&fds)];
    sendmsg::<()>(stream.as_raw_fd(), &[std::io::IoSlice::new(&pid)], &control, MsgFlags::empty(), None)
        .unwrap();
    let mut code = [0];
    _ = stream.read(&mut code);
    if code[0] == LEAVES {
        Command::new("sleep").arg("1000").spawn().unwrap();
    }
    std::process::exit(i32::from(code[0]));
}

fn receive(fd: RawFd, buffer: &mut [u8]) -> (usize, Vec<OwnedFd>) {
    let mut space = nix::cmsg_space!([RawFd; 8]);
    let mut parts = [IoSliceMut::new(buffer)];
    let message = recvmsg::<()>(fd, &mut parts, Some(&mut space), MsgFlags::MSG_CMSG_CLOEXEC).unwrap();
    let mut fds = Vec::new();
    for control in message.cmsgs().unwrap() {
        if let ControlMessageOwned::ScmRights(list) = control {
            // SAFETY: the kernel has just made these descriptors.
            fds.extend(list.into_iter().map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }));
        }
    }
    (message.bytes, fds)
}

fn readable(fd: impl AsFd, wait: Duration) -> bool {
    let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
    poll(&mut fds, PollTimeout::try_from(wait).unwrap()).unwrap() == 1
}

/// A real keeper; the test plays its supervisor.
pub struct Keeper {
    pub process: Child,
    pub supervisor: i32,
    stream: Option<UnixStream>,
    socket: OwnedFd,
    listener: UnixListener,
    backlog: VecDeque<(Report, Vec<OwnedFd>)>,
    pub dir: tempfile::TempDir,
    pub cgroup: bool,
}

/// A child with the descriptors of its `Started` report.
pub struct Parked {
    pub worker: WorkerId,
    pub pid: i32,
    pub socket: OwnedFd,
    pub out: OwnedFd,
    pub err: OwnedFd,
}

pub const KEEPER: &str = env!("CARGO_BIN_EXE_taskvisor");

impl Keeper {
    pub fn start(without: &str) -> (Keeper, Hello) {
        Keeper::start_with(without, &[], &[])
    }

    /// Starts a keeper; `before` precedes its command line, `options` follow its name.
    pub fn start_with(without: &str, before: &[&str], options: &[&str]) -> (Keeper, Hello) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("relay");
        let listener = UnixListener::bind(&path).unwrap();
        // For a supervisor that is not root.
        for (path, mode) in [(dir.path(), 0o711), (&path, 0o777)] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        let binary = std::env::var("TV_KEEPER").unwrap_or(KEEPER.into());
        let line: Vec<&str> = before.iter().copied().chain([&binary, "keeper"]).collect();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).args(options).arg("--").arg(std::env::current_exe().unwrap());
        command.args(["--exact", "relay_supervisor", "--nocapture"]);
        // Without root the test could not read /proc of a keeper that is not dumpable.
        let open = if nix::unistd::geteuid().is_root() { "" } else { ",undumpable" };
        command
            .env("TV_RELAY", &path)
            .env("TASKVISOR_WITHOUT", format!("{without}{open}"))
            .stdout(std::process::Stdio::null());
        let process = command.spawn().unwrap();
        let (stream, supervisor, socket) = accept(&listener);
        let stream = Some(stream);
        let mut keeper = Keeper {
            process,
            supervisor,
            stream,
            socket,
            listener,
            backlog: VecDeque::new(),
            dir,
            cgroup: false,
        };
        let hello = keeper.hello();
        keeper.cgroup = hello.cgroup;
        (keeper, hello)
    }

    /// Plays the next supervisor.
    pub fn next_supervisor(&mut self) -> Hello {
        let (stream, supervisor, socket) = accept(&self.listener);
        (self.stream, self.supervisor, self.socket) = (Some(stream), supervisor, socket);
        self.backlog.clear();
        self.hello()
    }

    fn hello(&mut self) -> Hello {
        match self.report().0 {
            Report::Hello(hello) => hello,
            other => panic!("not a hello: {other:?}"),
        }
    }

    pub fn pid(&self) -> i32 {
        self.process.id() as i32
    }

    /// The pid of the process that relays the supervisor's socket.
    pub fn supervisor(&self) -> i32 {
        self.supervisor
    }

    pub fn order(&self, orders: &[Order]) {
        let mut packet = Vec::new();
        orders.iter().for_each(|order| order.encode(&mut packet));
        send(self.socket.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL).unwrap();
    }

    /// The next report from the socket itself.
    fn receive(&self) -> (Report, Vec<OwnedFd>) {
        assert!(readable(&self.socket, SOON), "no report came after {:?}", self.backlog);
        let mut packet = [0; 4096];
        let (len, fds) = receive(self.socket.as_raw_fd(), &mut packet);
        assert_ne!(len, 0, "the keeper is gone");
        (Report::decode(&packet[..len]).unwrap(), fds)
    }

    pub fn report(&mut self) -> (Report, Vec<OwnedFd>) {
        self.backlog.pop_front().unwrap_or_else(|| self.receive())
    }

    /// The first report that fits; the others stay queued.
    pub fn expect<T>(&mut self, fits: impl Fn(&Report) -> Option<T>) -> (T, Vec<OwnedFd>) {
        if let Some(at) = self.backlog.iter().position(|(report, _)| fits(report).is_some()) {
            let (report, fds) = self.backlog.remove(at).unwrap();
            return (fits(&report).unwrap(), fds);
        }
        loop {
            let (report, fds) = self.receive();
            match fits(&report) {
                Some(found) => return (found, fds),
                None => self.backlog.push_back((report, fds)),
            }
        }
    }

    pub fn park(&mut self, worker: WorkerId) -> Parked {
        self.order(&[Order::Spawn(worker)]);
        self.started(worker)
    }

    pub fn fork(&mut self, worker: WorkerId, template: WorkerId) -> Parked {
        self.order(&[Order::Fork(worker, template)]);
        self.started(worker)
    }

    /// Starts a template whose forks go as `ways` say; see `template.c`.
    pub fn template(&mut self, worker: WorkerId, ways: &[&str]) -> Parked {
        let path = self.dir.path().join("template");
        if !path.exists() {
            let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/support/template.c");
            let made = Command::new("cc").args(["-O1", "-o"]).arg(&path).arg(source).status().unwrap();
            assert!(made.success(), "template.c does not compile");
        }
        self.order(&[Order::Template(worker)]);
        let parked = self.started(worker);
        let mut order = program(&[&[path.to_str().unwrap()], ways].concat());
        order.speaks = true;
        order.env.push(format!("TV_GATE={}", self.dir.path().join("gate").display()).into_bytes());
        parked.exec(&order);
        assert_eq!(read_until(&parked.socket, |text| text.ends_with('\n')), "up\n");
        parked
    }

    pub fn started(&mut self, worker: WorkerId) -> Parked {
        let (pid, fds) = self.expect(|report| match report {
            Report::Started(id, pid) if *id == worker => Some(*pid),
            _ => None,
        });
        let [socket, out, err] = fds.try_into().unwrap();
        Parked { worker, pid, socket, out, err }
    }

    pub fn run(&mut self, worker: WorkerId, script: &str) -> Parked {
        let parked = self.park(worker);
        parked.exec(&shell(script));
        parked
    }

    /// Waits for a failed spawn or fork; returns its step and errno.
    pub fn failed(&mut self, worker: WorkerId) -> (Step, i32) {
        let fits = |report: &Report| match report {
            Report::SpawnFailed { worker: id, step, errno } if *id == worker => Some((*step, *errno)),
            _ => None,
        };
        self.expect(fits).0
    }

    /// The pids of its children, zombies included.
    pub fn children(&self) -> Vec<i32> {
        let list = fs::read_to_string(format!("/proc/{0}/task/{0}/children", self.pid())).unwrap();
        list.split_whitespace().map(|pid| pid.parse().unwrap()).collect()
    }

    pub fn exited(&mut self, worker: WorkerId) -> Exit {
        self.expect(|report| match report {
            Report::Exited { worker: id, exit, .. } if *id == worker => Some(exit.clone()),
            _ => None,
        })
        .0
    }

    pub fn left(&mut self, worker: WorkerId) -> (Exit, Vec<OwnedFd>) {
        self.expect(|report| match report {
            Report::Left(id, exit) if *id == worker => Some(exit.clone()),
            _ => None,
        })
    }

    /// Ends the supervisor's process.
    pub fn close(&mut self) {
        self.stream = None;
    }

    /// Ends the supervisor's process with a report unread and this last order, before the keeper can react.
    pub fn leave(&mut self, order: Order) {
        assert!(readable(&self.socket, SOON), "no report came after {:?}", self.backlog);
        signal(self.pid(), nix::sys::signal::Signal::SIGSTOP);
        self.order(&[order]);
        self.socket = fs::File::open("/dev/null").unwrap().into();
        self.close();
        let supervisor = self.supervisor;
        wait_until("the supervisor has ended", SOON, || !lives(supervisor));
        signal(self.pid(), nix::sys::signal::Signal::SIGCONT);
    }

    /// The supervisor ends with this code.
    pub fn exit_with(&mut self, code: u8) {
        self.stream.take().unwrap().write_all(&[code]).unwrap();
    }

    pub fn wait(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the keeper has ended", SOON, || {
            status = self.process.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// Stops the keeper in order; asserts that nothing is left.
    pub fn shutdown(mut self, code: u8) {
        self.order(&[Order::Shutdown(code)]);
        self.close();
        let status = self.wait();
        assert_eq!(status.code(), Some(i32::from(code)), "{:?}", status.signal());
        assert!(!self.cgroup || cgroups_of(self.pid()).is_empty(), "a cgroup is left");
    }
}

impl Drop for Keeper {
    /// A failed story leaves nothing behind either: asks the keeper to stop first.
    fn drop(&mut self) {
        let mut packet = Vec::new();
        Order::Shutdown(0).encode(&mut packet);
        _ = send(self.socket.as_raw_fd(), &packet, MsgFlags::MSG_NOSIGNAL);
        self.stream = None;
        let end = Instant::now() + Duration::from_secs(8);
        while matches!(self.process.try_wait(), Ok(None)) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(2));
        }
        _ = self.process.kill();
        _ = self.process.wait();
    }
}

impl Parked {
    pub fn exec(&self, program: &Program) {
        let message = program.encode();
        assert_eq!(send(self.socket.as_raw_fd(), &message, MsgFlags::MSG_NOSIGNAL).unwrap(), message.len());
    }

    /// Why the child could not execute its program.
    pub fn failure(&self) -> Option<Failed> {
        let mut answer = [0; 64];
        let len = nix::unistd::read(&self.socket, &mut answer).unwrap();
        match Said::decode(&answer[..len]) {
            Said::Failed(failed) => Some(failed),
            Said::Nothing | Said::Begun => None,
        }
    }

    /// Lets a template's child run this script.
    pub fn job(&self, script: &str) {
        let line = format!("{script}\n");
        assert_eq!(
            send(self.socket.as_raw_fd(), line.as_bytes(), MsgFlags::MSG_NOSIGNAL).unwrap(),
            line.len()
        );
    }

    pub fn line(&self) -> String {
        read_until(&self.out, |text| text.ends_with('\n'))
    }
}

/// Reads until the text satisfies the condition or ends.
pub fn read_until(fd: &OwnedFd, enough: impl Fn(&str) -> bool) -> String {
    let mut text = String::new();
    while !enough(&text) {
        assert!(readable(fd, SOON), "no more output after {text:?}");
        let mut buffer = [0; 4096];
        match nix::unistd::read(fd, &mut buffer).unwrap() {
            0 => break,
            len => text.push_str(&String::from_utf8_lossy(&buffer[..len])),
        }
    }
    text
}

pub fn shell(script: &str) -> Program {
    program(&["/bin/sh", "-c", script])
}

pub fn program(argv: &[&str]) -> Program {
    Program {
        argv: argv.iter().map(|text| text.as_bytes().to_vec()).collect(),
        env: vec![b"PATH=/usr/bin:/bin".to_vec()],
        cwd: b"/".to_vec(),
        umask: 0o22,
        ..Program::default()
    }
}

/// The cgroups of keepers with this pid in their own pid namespace.
pub fn cgroups_of(pid: i32) -> Vec<PathBuf> {
    let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].into_iter();
    let entries = mounts.flat_map(|mount| fs::read_dir(mount).into_iter().flatten().flatten());
    let named = |path: &PathBuf| path.to_string_lossy().contains(&format!("/taskvisor-{pid}-"));
    entries.map(|entry| entry.path()).filter(named).collect()
}

fn accept(listener: &UnixListener) -> (UnixStream, i32, OwnedFd) {
    assert!(readable(listener, SOON), "no supervisor came");
    let (stream, _) = listener.accept().unwrap();
    let mut pid = [0; 4];
    assert!(readable(&stream, SOON), "a supervisor without a socket");
    let (_, mut fds) = receive(stream.as_raw_fd(), &mut pid);
    (stream, i32::from_le_bytes(pid), fds.pop().unwrap())
}

/// A pids cgroup around a process until this is dropped. `None` where the test may not make one.
pub struct PidsLimit(std::path::PathBuf);

impl PidsLimit {
    pub fn around(pid: i32, max: usize) -> Option<PidsLimit> {
        let dir = Path::new("/sys/fs/cgroup/pids").join(format!("tv-test-{pid}"));
        fs::create_dir(&dir).ok()?;
        let limit = PidsLimit(dir);
        limit.set(max);
        fs::write(limit.0.join("cgroup.procs"), pid.to_string()).ok()?;
        Some(limit)
    }

    /// The number of processes and threads in it.
    pub fn count(&self) -> usize {
        fs::read_to_string(self.0.join("pids.current")).unwrap().trim().parse().unwrap()
    }

    pub fn set(&self, max: usize) {
        fs::write(self.0.join("pids.max"), max.to_string()).unwrap();
    }
}

impl Drop for PidsLimit {
    fn drop(&mut self) {
        // A failed test may have left a fork bomb in it; the limit stops its forks from here on.
        self.set(0);
        let dir = self.0.clone();
        wait_until("the pids cgroup is empty", SOON, || {
            let inhabitants = fs::read_to_string(dir.join("cgroup.procs")).unwrap_or_default();
            for pid in inhabitants.lines().flat_map(str::parse).filter(|pid| *pid > 0) {
                _ = nix::sys::signal::kill(
                    nix::unistd::Pid::from_raw(pid),
                    nix::sys::signal::Signal::SIGKILL,
                );
            }
            fs::remove_dir(&dir).is_ok()
        });
    }
}
