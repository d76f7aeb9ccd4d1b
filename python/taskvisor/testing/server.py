"""`Server`: a real supervisor with real workers, in a temporary directory, for one test or for all."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from .. import installed
from ..client import asking, registry, stand_in, waiting
from ..client.program import path
from ..errors import SupervisorError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType
    from typing import Any, Optional

#: Variables that name a supervisor: those of the server hold while it runs.
_VARIABLES = ("TASKVISOR_SOCKET", "TASKVISOR_RUN_DIR", "TASKVISOR_STATE_DIR", "TASKVISOR_BROKER", "TASKVISOR_CONFIG",
              "TASKVISOR_URL")


class Server:
    """A supervisor with workers that load `modules`: by default those of all jobs that are known here.

        with Server("app") as server:
            id = app.send.put("a@b.c")
            server.drain()
            assert id.info().state == "complete"

    While it runs, this process and its children put to it. Its directory, with the store and the output of its jobs,
    is removed at the end. `options` are more of those of ``taskvisor start``, `settings` more of its file of settings.
    """

    def __init__(self, *modules: str, workers: int = 2, mode: str = "prefork", queues: Sequence[str] = (),
                 broker: Optional[str] = "memory:", options: Sequence[str] = (), program: Optional[str] = None,
                 settings: Optional[Mapping[str, Any]] = None) -> None:
        self._modules, self._workers, self._mode, self._queues = modules, workers, mode, queues
        self._broker, self._options, self._settings = broker, options, dict(settings or {})
        self._program = program or os.environ.get("TASKVISOR_PROGRAM") or path() or ""
        self._process: Optional[subprocess.Popen[bytes]] = None
        self._before: dict[str, Optional[str]] = {}
        self._stand_in: Optional[stand_in.StandIn] = None
        #: Where it keeps everything; None while it does not run.
        self.directory: Optional[str] = None

    def __enter__(self) -> Server:
        self.start()
        return self

    def __exit__(self, kind: Optional[type[BaseException]], error: Optional[BaseException],
                 trace: Optional[TracebackType]) -> None:
        self.stop()

    def start(self) -> None:
        """Starts it, and returns once it takes jobs."""
        if not self._program:
            raise SupervisorError(f"{installed.lacks()}; or name it by TASKVISOR_PROGRAM")
        if self.directory is None:
            self.directory = tempfile.mkdtemp(prefix="taskvisor-")
            self._before = {name: os.environ.get(name) for name in _VARIABLES}
            for name in _VARIABLES:
                os.environ.pop(name, None)
            os.environ.update(TASKVISOR_RUN_DIR=os.path.join(self.directory, "run"),
                              TASKVISOR_STATE_DIR=os.path.join(self.directory, "state"))
            self._stand_in, stand_in.current.one = stand_in.current.one, None
        try:
            self._launch()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Ends it and its jobs, and removes its directory."""
        self._end(signal.SIGTERM)
        if self.directory is not None:
            shutil.rmtree(self.directory, ignore_errors=True)
            self.directory = None
            for name, value in self._before.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value
            stand_in.current.one = self._stand_in

    def restart(self) -> None:
        """Stops it and starts it again. With ``broker="memory:"``, the default, its jobs are gone."""
        self._end(signal.SIGTERM)
        self._launch()

    def drain(self, timeout: float = 30.0) -> None:
        """Waits until no job waits or runs, also of those that jobs put. Delayed jobs are left alone."""
        end = time.monotonic() + timeout
        while True:
            found = asking.ask("GET", "/v1/jobs?state=waiting,running,canceling&limit=0")
            if not found:
                return
            for _ in waiting.ends([job["id"] for job in found], max(0.001, end - time.monotonic())):
                pass

    def _launch(self) -> None:
        directory = str(self.directory)
        for name in ("run", "state"):
            os.makedirs(os.path.join(directory, name), 0o700, exist_ok=True)
        notify = os.path.join(directory, "notify")
        environment = {**os.environ, "NOTIFY_SOCKET": notify}
        environment.pop("PYTEST_CURRENT_TEST", None)
        with open(os.path.join(directory, "settings.yaml"), "w", encoding="utf-8") as settings:
            json.dump({"pools": [self._pool()], **self._settings}, settings)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as ready, \
                open(os.path.join(directory, "log"), "ab") as log:
            ready.bind(notify)
            self._process = subprocess.Popen(self._command(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                             env=environment, start_new_session=True)
            try:
                self._wait_until_ready(ready)
            finally:
                os.unlink(notify)

    def _pool(self) -> dict[str, Any]:
        """The pool, as the settings file has it: JSON is YAML, too."""
        known = registry.functions.values()
        modules = self._modules or sorted({function.function.__module__ for function in known})
        if not modules:
            raise ValueError("no module with jobs is imported here: name those that the workers are to load")
        queues = list(dict.fromkeys([*self._queues] or ["default", *(function.queue for function in known)]))
        paths = os.pathsep.join(path or os.getcwd() for path in sys.path)
        return {"name": "default", "workers": self._workers, "mode": self._mode, "queues": queues, "grace": "2s",
                "retry_delay": "0s", "env": {"set": {"PYTHONPATH": paths}},
                "command": [sys.executable, "-m", "taskvisor.worker", *modules]}

    def _command(self) -> list[str]:
        command = [self._program, "start", "-c", os.path.join(str(self.directory), "settings.yaml")]
        return [*command, *([] if self._broker is None else ["-b", self._broker]), *self._options]

    def _wait_until_ready(self, ready: socket.socket) -> None:
        process, end = self._process, time.monotonic() + 30
        ready.settimeout(0.1)
        while process is not None and process.poll() is None and time.monotonic() < end:
            try:
                if b"READY=1" in ready.recv(4096):
                    return
            except (socket.timeout, BlockingIOError):
                pass
        raise SupervisorError(f"{self._program} did not start: {self.log()[-2000:]}")

    def log(self) -> str:
        """What the supervisor has logged so far."""
        with open(os.path.join(str(self.directory), "log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def _end(self, number: int) -> None:
        process, self._process = self._process, None
        if process is None or process.poll() is not None:
            return
        process.send_signal(number)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
