"""A supervisor for tests: it starts a real worker and talks to it over socket pairs, as its parent."""

import array
import fcntl
import json
import os
import select
import signal
import socket
import struct
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
PACKAGE = os.path.dirname(HERE)
sys.path.insert(0, PACKAGE)
#: For one frame, or one end. A job that uses 2 s of CPU time took over 10 s on a machine with five times its load.
PATIENCE_SECONDS = 60
#: For tests of seconds that show the same with every Python: the oldest, Debian's, and the newest run them.
some_pythons = unittest.skipUnless(sys.version_info[:2] in ((3, 7), (3, 11), (3, 13)) or "TASKVISOR_TEST_ALL" in os.environ,
                                   "other Pythons run it; TASKVISOR_TEST_ALL=1 has all of them")

_SUBREAPER = ("import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); "
              "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])")


class Channel:
    """The supervisor's end of a worker's channel."""

    def __init__(self):
        self.socket, self.theirs = socket.socketpair()
        self.socket.settimeout(PATIENCE_SECONDS)
        self.lines = self.socket.makefile("rb")
        self.out, self.err = tempfile.TemporaryFile(), tempfile.TemporaryFile()
        self.stops = []

    def send(self, name, **fields):
        self.socket.sendall(json.dumps({name: fields}).encode() + b"\n")

    def receive(self):
        """The next frame as (name, fields); (None, None) at the end of file. The CPU time of a job goes to `cpu`.

        A worker that asks for how long it was stopped gets the first entry of `stops`, in seconds; 0 if there is none;
        no answer if it is None."""
        while True:
            line = self.lines.readline()
            if not line:
                return None, None
            (name, fields), = json.loads(line).items()
            if fields.get("verb") != "stopped":
                break
            seconds = self.stops.pop(0) if self.stops else 0
            if seconds is not None:
                self.send("reply", n=fields["n"], ok={"seconds": seconds})
        if name == "done":
            self.cpu = fields.pop("cpu", None)
        return name, fields

    def run(self, class_name, data=None, id="j1", **fields):
        job = {"id": id, "fence": 7, "class": class_name, "queue": "q", "data": data, "attempt": 1, "priority": 0,
               "tags": [], **fields}
        if "raw" in fields:
            del job["data"]
        self.send("run", job=job)

    def done(self):
        """Reads until a job is done; keeps earlier frames in `seen`."""
        self.seen = []
        while True:
            name, fields = self.receive()
            if name == "done":
                return fields
            if name is None:
                raise AssertionError(f"the worker closed the channel; before: {self.seen}")
            self.seen.append((name, fields))

    def outcome(self, class_name, data=None, **fields):
        """Runs a job to its end."""
        self.run(class_name, data, **fields)
        return self.done()

    def stdout(self):
        return text_of(self.out)

    def stderr(self):
        return text_of(self.err)

    def hang_up(self):
        """Closes the channel as if the supervisor were gone."""
        self.lines.close()
        self.socket.close()

    def close(self):
        self.hang_up()
        self.out.close()
        self.err.close()


class Worker(Channel):
    """A worker process with its channel. Its output goes to files."""

    def __init__(self, *arguments, mode="prefork", concurrency=1, program="taskvisor.worker", module="sample",
                 env=None, fork_socket=None, greet=True, subreaper=False, streams_together=False):
        super().__init__()
        environment = {"PATH": os.environ["PATH"], "HOME": "/", "PYTHONPATH": f"{PACKAGE}:{HERE}", "LANG": "C.UTF-8",
                       "PYTHONDONTWRITEBYTECODE": "1", "TASKVISOR_FD": "3", "TASKVISOR_PROTOCOL": "1",
                       "TASKVISOR_MODE": mode, "TASKVISOR_CONCURRENCY": str(concurrency)}
        moves = [(self.theirs, 3), (self.out, 1), (self.out if streams_together else self.err, 2)]
        if fork_socket is not None:
            environment["TASKVISOR_FORK_FD"] = "4"
            moves.append((fork_socket, 4))
        environment.update(env or {})
        high = [(fcntl.fcntl(source.fileno(), fcntl.F_DUPFD_CLOEXEC, 50), target) for source, target in moves]
        command = [sys.executable, "-m", program, *([module] if module else []), *arguments]
        if subreaper:
            command[1:1] = ["-c", _SUBREAPER]
        self.pid = spawn(command, environment, high)
        for source, _ in high:
            os.close(source)
        self.theirs.close()
        self.status = None
        if greet:
            name, self.hello = self.receive()
            assert name == "hello", self.stderr()
            assert self.receive() == ("ready", {})

    def kill(self, number=signal.SIGTERM):
        os.kill(self.pid, number)

    def wait(self):
        """The exit status; negative for a signal."""
        if self.status is None:
            self.status = wait_for(self.pid)
        return self.status

    def end(self):
        """Ends the worker after a test."""
        if self.status is None:
            os.kill(self.pid, signal.SIGKILL)
            wait_for(self.pid)
        self.close()


class Keeper:
    """The keeper's end of a template's descriptor 4."""

    def __init__(self):
        if sys.version_info < (3, 8):
            raise unittest.SkipTest("the mode fork needs Python 3.8")
        self.socket, self.theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
        self.socket.settimeout(PATIENCE_SECONDS)
        self.numbers = 0

    def ask(self, cgroup=None):
        """Orders a fork, optionally into the cgroup of this open directory."""
        child = Child()
        self.numbers += 1
        child.number = struct.pack("<Q", self.numbers)
        descriptors = array.array("i", [child.theirs.fileno(), child.out.fileno(), child.err.fileno()])
        if cgroup is not None:
            descriptors.append(cgroup)
        self.socket.sendmsg([child.number], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)])
        child.theirs.close()
        return child

    def fork(self, cgroup=None):
        """Orders a fork; returns the child after its hello."""
        child = self.ask(cgroup)
        answer, child.pid = self.receive()
        assert answer == child.number, answer
        return child

    def receive(self):
        """A packet and the pid of its sender."""
        data, ancillary, _, _ = self.socket.recvmsg(64, socket.CMSG_SPACE(12))
        pid = next(struct.unpack("iii", value)[0] for _, kind, value in ancillary if kind == socket.SCM_CREDENTIALS)
        return data, pid

    def close(self):
        self.socket.close()


class Child(Channel):
    """A job child of a template."""

    pid = 0

    def wait(self):
        return wait_for(self.pid)


#: Signals that a process of the tests does not ignore, whatever the shell does.
DEFAULT_SIGNALS = [signal.SIGINT, signal.SIGHUP, signal.SIGQUIT]


def spawn(command, environment, descriptors):
    """Starts a process whose stdin is empty, with copies of these descriptors.

    A shell that runs the tests in the background has them ignore SIGINT: the process does not.
    """
    if not hasattr(os, "posix_spawn"):  # Python 3.7
        pid = os.fork()
        if pid == 0:
            for number in DEFAULT_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for source, target in descriptors:
                os.dup2(source, target)
            os.execve(sys.executable, command, environment)
        return pid
    actions = [(os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)]
    actions += [(os.POSIX_SPAWN_DUP2, source, target) for source, target in descriptors]
    return os.posix_spawn(sys.executable, command, environment, file_actions=actions, setsigdef=DEFAULT_SIGNALS)


def text_of(file):
    """The content of the file, without moving the write position."""
    return os.pread(file.fileno(), 1 << 24, 0).decode()


def wait_for(pid):
    """The exit status of our child; fails if it does not end."""
    handle = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else None
    if handle is not None:
        try:
            if not select.select([handle], [], [], PATIENCE_SECONDS)[0]:
                os.kill(pid, signal.SIGKILL)
                raise AssertionError(f"process {pid} did not end")
        finally:
            os.close(handle)
    _, status = os.waitpid(pid, 0)
    return -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


class WorkerTest(unittest.TestCase):
    """Tests that start workers."""

    def worker(self, *arguments, **options):
        worker = Worker(*arguments, **options)
        self.addCleanup(worker.end)
        return worker
