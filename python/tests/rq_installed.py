"""RQ for tests: its versions, each installed once, and a Redis for the tests."""

import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time

PATIENCE_SECONDS = 20
#: Versions with the first Python that each supports.
VERSIONS = {"1.16.2": (3, 8), "2.12.0": (3, 10), "3.0.0": (3, 10)}
NEWEST = "3.0.0"


def versions():
    """The versions that support this Python."""
    return [version for version, least in VERSIONS.items() if sys.version_info >= least]


def site(version, package="rq"):
    """The directory with that version and its dependencies for this Python."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    directory = os.path.join(cache, "taskvisor", f"{package}-{version}-py{sys.version_info[0]}.{sys.version_info[1]}")
    os.makedirs(os.path.dirname(directory), exist_ok=True)
    with open(directory + ".lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(os.path.join(directory, "whole")):
            shutil.rmtree(directory, ignore_errors=True)
            # As a variable, as the pip of Python 3.7 does not know that option.
            done = subprocess.run([sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check",
                                   "--target", directory, f"{package}=={version}"], capture_output=True, text=True,
                                  env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"})
            assert done.returncode == 0, f"{package} {version} could not be installed into {directory}:\n{done.stderr}"
            open(os.path.join(directory, "whole"), "w").close()
    return directory


class Redis:
    """A redis-server on a unix socket, with its data."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="taskvisor-rq-")
        self.path = os.path.join(self.directory, "redis.sock")
        self.url = f"unix://{self.path}"
        self._process = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", self.path, "--save", "", "--dir", self.directory],
            stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise AssertionError("redis-server does not answer")

    def _answers(self):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.path)
                probe.sendall(b"PING\r\n")
                return probe.recv(16).startswith(b"+PONG")
            except OSError:
                # The server is starting: check that its process lives.
                return False

    def connections(self):
        """The number of connections made so far."""
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(self.path)
            client.sendall(b"INFO stats\r\nQUIT\r\n")
            text = b"".join(iter(lambda: client.recv(65536), b""))
        line = next(line for line in text.splitlines() if line.startswith(b"total_connections_received:"))
        return int(line.partition(b":")[2])

    def end(self):
        """Ends the server and removes its data."""
        self._process.terminate()
        self._process.wait(PATIENCE_SECONDS)
        shutil.rmtree(self.directory)


class Producer:
    """A process with one version of RQ that puts and reads jobs: versions cannot be mixed in one process."""

    def __init__(self, version, redis):
        self.site = site(version)
        environment = {**os.environ, "PYTHONPATH": f"{self.site}:{os.path.dirname(os.path.abspath(__file__))}"}
        self._process = subprocess.Popen([sys.executable, "-m", "rq_producer", redis.path], env=environment, text=True,
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, expression):
        """The value of an expression in that process."""
        self._process.stdin.write(expression.replace("\n", " ") + "\n")
        self._process.stdin.flush()
        answer = self._process.stdout.readline()
        if not answer:
            raise AssertionError(f"the producer has died of: {expression}")
        import ast

        return ast.literal_eval(answer)

    def end(self):
        """Ends the process."""
        self._process.communicate()
