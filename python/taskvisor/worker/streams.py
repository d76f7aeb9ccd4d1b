"""stdout and stderr where several jobs run at a time: what a job prints becomes `log` frames of its own."""

from __future__ import annotations

import io
import sys
import threading
from typing import Any, TextIO

from ..client.running_job import Job, of_task
from ..protocol import frames

#: A line that does not end is sent in pieces of this many characters.
_LONGEST = 256 * 1024

# Reentrant: a finaliser that prints may come in the middle of a print.
_lock = threading.RLock()


class JobStream(io.TextIOBase):
    """Sends the lines of a job as frames, and passes on what is printed outside of one."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real
        self._name = str(real.name)

    def write(self, text: str) -> int:
        """Keeps what follows the last newline until its line is whole."""
        job = of_task.get()
        if job is None or job.ended or job.runtime is None:
            return self._real.write(text)
        name = self._name
        with _lock:
            held = job.partial_lines.get(name)
            held = held + text if held else text
            end = held.rfind("\n")
            if end < 0 and len(held) > _LONGEST:
                end = len(held)
            if end >= 0:
                _send(job, held[:end])
            job.partial_lines[name] = held[end + 1:]
        return len(text)

    def writable(self) -> bool:
        """Always."""
        return True

    def isatty(self) -> bool:
        """Never."""
        return False

    def flush(self) -> None:
        """Half a line of a job is kept: a frame adds a newline."""
        self._real.flush()

    def fileno(self) -> int:
        """The real descriptor: what is written there belongs to no job."""
        return self._real.fileno()

    def __getattr__(self, name: str) -> Any:
        # encoding, errors, buffer, reconfigure and so on.
        return getattr(self._real, name)


def install() -> None:
    """Before the application is loaded: it may keep the streams that it finds, as log handlers do."""
    sys.stdout = JobStream(sys.stdout)
    sys.stderr = JobStream(sys.stderr)


def finish(job: Job) -> None:
    """Sends the lines that the job has not ended."""
    with _lock:
        for rest in job.partial_lines.values():
            if rest:
                _send(job, rest)
        job.partial_lines.clear()


def _send(job: Job, text: str) -> None:
    """At once, as what was printed has to be there when the process crashes in its next line."""
    if job.runtime is not None:
        for start in range(0, len(text) or 1, _LONGEST):
            part = text if len(text) <= _LONGEST else text[start:start + _LONGEST]
            job.runtime.send_now(frames.log(job.id, part))
