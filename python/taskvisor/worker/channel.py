"""The channel to the supervisor of a worker with one job at a time: blocking, with few system calls.

It never tears a frame: SIGTERM that comes during a write is raised after it.
"""

from __future__ import annotations

import os
import select
import threading
import time
from collections import deque

from ..client.running_job import Job
from ..errors import Interrupted, PutError
from ..protocol import frames
from ..protocol.frames import answer, split_lines
from .process import identity
from .termination import Termination

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Optional

_CHUNK = 64 * 1024
_LARGE_CHUNK = 1024 * 1024


class Closed(Exception):
    """The channel is closed, or its descriptor leads elsewhere now."""


class Channel:
    """Whole frames over a stream socket."""

    def __init__(self, descriptor: int, termination: Termination) -> None:
        self.descriptor = descriptor
        self._termination = termination
        self._identity = identity(descriptor)
        self._lines: deque[bytes] = deque()
        self._unfinished: list[bytes] = []
        # Reentrant: a finaliser that reports progress may run in the middle of a write.
        self._write_lock = threading.RLock()
        self._call_lock = threading.Lock()
        self._calls = 0
        self._later: deque[bytes] = deque()
        self._poll = select.poll()
        self._poll.register(descriptor, select.POLLIN)
        self._poll.register(termination.wake, select.POLLIN)
        os.set_blocking(descriptor, True)
        os.set_inheritable(descriptor, False)

    def send(self, line: bytes) -> None:
        """Sends a frame; SIGTERM does not tear it."""
        with self._termination.shielded():
            self.write(line)

    send_now = send

    def write(self, line: bytes) -> None:
        """Writes a frame, all of it."""
        with self._write_lock:
            try:
                written = os.write(self.descriptor, line)
                while written < len(line):
                    line = line[written:]
                    written = os.write(self.descriptor, line)
            except OSError as error:
                raise Closed(f"failed to write to descriptor {self.descriptor}: {error.strerror}") from None

    def next_line(self) -> bytes:
        """Waits for the next frame and returns it. Exits 0 on SIGTERM."""
        # A thread that a job has left behind may still read its reply.
        with self._call_lock:
            while True:
                if self._later:
                    return self._later.popleft()
                if self._lines:
                    return self._lines.popleft()
                self._termination.begin_wait()
                self._wait()
                self._termination.end_wait()
                self._read()

    def read_lines(self) -> list[bytes]:
        """Reads once, and returns the whole lines that have arrived."""
        self._read()
        lines = list(self._lines)
        self._lines.clear()
        return lines

    def call(self, verb: str, arguments: dict[str, Any]) -> Any:
        """Makes a call to the supervisor and waits for the answer. From any thread of the job."""
        with self._call_lock:
            self._calls += 1
            number = self._calls
            line = frames.frame("call", {"n": number, "verb": verb, "args": arguments})
            if len(line) > frames.LONGEST:
                raise PutError(f"failed to {verb}: {len(line)} bytes are more than the {frames.LONGEST} of a frame; "
                               "put fewer at a time, or put the name of a file")
            try:
                self.send(line)
                return answer(verb, self._reply(number) or {})
            except Closed as error:
                raise Interrupted(f"the supervisor is gone: {error}") from None

    async def call_async(self, verb: str, arguments: dict[str, Any]) -> Any:
        """As `call`: nothing else has to go on, as the process has one job."""
        return self.call(verb, arguments)

    def stopped(self, job: Job, patience: float) -> Optional[float]:
        """For how many seconds the job was stopped; None if nobody answers in time, or a call is under way."""
        # A signal handler may ask, which has interrupted that call.
        if self._call_lock.locked():
            return None
        with self._call_lock:
            self._calls += 1
            try:
                self.send(frames.frame("call", {"n": self._calls, "verb": "stopped",
                                                "args": {"id": job.id, "fence": job.fence}}))
                reply = self._reply(self._calls, time.monotonic() + patience)
            except Closed:
                return None
        return None if reply is None else frames.stopped_in(reply)

    def renew(self) -> None:
        """Notes that another channel is at this descriptor now."""
        self._identity = identity(self.descriptor)

    def check(self) -> None:
        """Raises Closed if the descriptor does not lead to the channel any more: a job may have closed it, or put a
        file there."""
        if identity(self.descriptor) != self._identity:
            raise Closed(f"descriptor {self.descriptor} was closed by a job")

    def _reply(self, number: int, until: Optional[float] = None) -> Optional[dict[str, Any]]:
        while True:
            while self._lines:
                line = self._lines.popleft()
                frame = frames.decode(line)
                reply = frame.get("reply")
                if reply is None:
                    # `next_line` returns it when the job is over.
                    self._later.append(line)
                elif reply.get("n") == number:
                    return dict(reply)
            if not self._wait(until):
                return None
            with self._termination.shielded():
                self._read()

    def _wait(self, until: Optional[float] = None) -> bool:
        """Waits for something to read; False if there is nothing by that time."""
        while True:
            left = None if until is None else max(0, round((until - time.monotonic()) * 1000))
            ready = self._poll.poll(left)
            if not ready:
                return False
            if len(ready) > 1 or ready[0][0] == self.descriptor:
                return True
            self._termination.drain()

    def _read(self) -> None:
        try:
            chunk = os.read(self.descriptor, _LARGE_CHUNK if self._unfinished else _CHUNK)
        except OSError as error:
            raise Closed(f"failed to read from descriptor {self.descriptor}: {error.strerror}") from None
        if not chunk:
            raise EndOfFile("the supervisor has closed the channel")
        split_lines(chunk, self._unfinished, self._lines)


class EndOfFile(Closed):
    """The supervisor has closed the channel."""
