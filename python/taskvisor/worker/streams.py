"""stdout and stderr in mode coroutine: each line that a job prints becomes a `log` frame of that job.

It never keeps a whole line: a crash in the next moment would lose it.
"""

from __future__ import annotations

import io
import sys
import threading
from typing import Any, TextIO

from ..client.running_job import Job, of_task
from ..protocol import frames

#: A line that does not end is sent in pieces of this many characters.
_LONGEST = 256 * 1024

# Reentrant: a finaliser that prints may run in the middle of a print.
_lock = threading.RLock()


class JobStream(io.TextIOBase):
    """Sends the lines of a job as frames, and passes on output outside of jobs."""

    def __init__(self, real: TextIO) -> None:
        super().__init__()
        self._real = real
        self._name = str(real.name)

    def write(self, text: str) -> int:
        """Keeps the text after the last newline until its line is complete."""
        job = of_task.get()
        if job is None or job.ended or job.runtime is None:
            return self._real.write(text)
        partial, name = job.partial_lines, self._name
        with _lock:
            if text == "\n":
                # The end of a print, which writes it separately.
                _send(job, partial.pop(name, ""))
                return 1
            end = text.rfind("\n")
            held = partial.pop(name, "")
            if end >= 0:
                _send(job, held + text[:end])
                held = ""
            held += text[end + 1:]
            if len(held) > _LONGEST:
                _send(job, held)
            elif held:
                partial[name] = held
        return len(text)

    def writable(self) -> bool:
        """Always true."""
        return True

    def isatty(self) -> bool:
        """Always false."""
        return False

    def flush(self) -> None:
        """Keeps an unfinished line of a job: a frame adds a newline."""
        self._real.flush()

    def fileno(self) -> int:
        """The real descriptor: output to it belongs to no job."""
        return self._real.fileno()

    def __getattr__(self, name: str) -> Any:
        # For encoding, errors, buffer, reconfigure and so on.
        return getattr(self._real, name)


def install() -> None:
    """Replaces stdout and stderr. Must run before the application is loaded, as log handlers keep the stream that they
    find."""
    sys.stdout = JobStream(sys.stdout)
    sys.stderr = JobStream(sys.stderr)


def finish(job: Job) -> None:
    """Sends the unfinished lines of the job."""
    with _lock:
        for rest in job.partial_lines.values():
            if rest:
                _send(job, rest)
        job.partial_lines.clear()


def _send(job: Job, text: str) -> None:
    """Sends the text at once: if it were kept until the end of the loop's turn, a crash before that would lose it."""
    runtime = job.runtime
    if runtime is None:
        return
    if len(text) <= _LONGEST:
        runtime.send_now(frames.log(job.id, text))
        return
    for start in range(0, len(text), _LONGEST):
        runtime.send_now(frames.log(job.id, text[start:start + _LONGEST]))
