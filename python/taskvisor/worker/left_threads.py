"""Threads that a job leaves running in a worker that lives on: their later output never counts as the next job's.

Nobody can end a thread. Threads of pools are left out: `concurrent.futures` starts one in the job that needs it first,
and gives it work of later jobs.
"""

from __future__ import annotations

import io
import sys
import threading

from ..client import running_job
from ..client.running_job import Job

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Longer lists of names are cut.
_MOST = 20
#: The modules whose threads serve one job after the other.
POOLS = ("concurrent.futures.thread", "multiprocessing.pool")


class LeftThreads:
    """Finds the threads that a job has left, and separates them from the next job."""

    def __init__(self) -> None:
        self._before: set[threading.Thread] = set()
        self._are_wrapped = False

    def begin_job(self) -> None:
        """Threads that run now were not started by the next job."""
        alone = threading.active_count() == 1
        self._before = set() if alone else set(threading.enumerate())
        left = running_job.of_left_threads
        if left:
            for thread in [thread for thread in left if thread not in self._before]:
                del left[thread]
        if left:
            _wrap_streams()
        elif self._are_wrapped:
            _unwrap_streams()
        self._are_wrapped = bool(left)

    def end_job(self, job: Job) -> list[str]:
        """The threads that the job has left, by name. Their output goes to `job` from now on."""
        if threading.active_count() == 1:
            return []
        own = threading.current_thread()
        left = [thread for thread in threading.enumerate() if thread not in self._before and thread is not own]
        for thread in left:
            if getattr(getattr(thread, "_target", None), "__module__", None) not in POOLS:
                running_job.of_left_threads[thread] = job
        more = [f"{len(left) - _MOST} more threads"] if len(left) > _MOST else []
        return [f"thread {thread.name}" for thread in left[:_MOST]] + more


class LabelledStream(io.TextIOBase):
    """Puts the name of the thread and its job before each line that a left thread prints."""

    def __init__(self, real: Any) -> None:
        super().__init__()
        self.real = real
        #: The text after the last newline, by thread.
        self._partial: dict[threading.Thread, str] = {}

    def write(self, text: str) -> int:
        """Passes on the output of other threads."""
        thread = threading.current_thread()
        job = running_job.of_left_threads.get(thread)
        if job is None:
            written: int = self.real.write(text)
            return written
        *lines, rest = (self._partial.pop(thread, "") + text).split("\n")
        if rest:
            self._partial[thread] = rest
        if lines:
            label = f"[thread {thread.name}, left by job {job.id}]"
            self.real.write("".join(f"{label} {line}\n" for line in lines))
        return len(text)

    def writable(self) -> bool:
        """Always true."""
        return True

    def flush(self) -> None:
        """Keeps the unfinished line of a left thread."""
        self.real.flush()

    def fileno(self) -> int:
        """The real descriptor."""
        descriptor: int = self.real.fileno()
        return descriptor

    def __getattr__(self, name: str) -> Any:
        # For encoding, errors, buffer, reconfigure and so on.
        return getattr(self.real, name)


def _wrap_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, LabelledStream):
            setattr(sys, name, LabelledStream(stream))


def _unwrap_streams() -> None:
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if isinstance(stream, LabelledStream):
            setattr(sys, name, stream.real)
