"""Keeps a child process that a job forks from speaking, or hearing, as if it were the worker."""

from __future__ import annotations

import atexit
import os
import signal
import sys
from collections.abc import Iterable

from ..client import running_job
from .process import close, flush_streams

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

#: What `signal` is made of: without the names that it looks up for each signal.
_signal: Any = sys.modules["_signal"]


class ForkGuard:
    """Made once the worker listens for SIGTERM. Children of jobs then have neither its channel nor its handler."""

    def __init__(self, descriptors: list[int]) -> None:
        #: False in a child.
        self.is_worker = True
        self._descriptors = descriptors
        self._handler = _signal.getsignal(signal.SIGTERM)
        self._mask: Iterable[Any] = ()
        os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def _before(self) -> None:
        # Python forgets a signal that comes to a child before its hooks ran. Held back, it comes after them.
        if self.is_worker:
            self._mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})

    def _in_parent(self) -> None:
        if self.is_worker:
            signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)

    def _in_child(self) -> None:
        if not self.is_worker:
            return
        self.is_worker = False
        job = running_job.running()
        if job is not None:
            # What it puts goes to the supervisor's socket.
            job.runtime = None
        # The pipe behind it is shared with the worker, which would take our signals for its own.
        signal.set_wakeup_fd(-1)
        if _signal.getsignal(signal.SIGTERM) == self._handler:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
        for descriptor in self._descriptors:
            close(descriptor)
        signal.pthread_sigmask(signal.SIG_SETMASK, self._mask)


def leave_child(done: bytes) -> NoReturn:
    """Ends a child that came back out of the job's function: its parent reports, it does not."""
    flush_streams()
    os._exit(0 if b'"outcome":"complete"' in done else 1)


def leave_worker() -> NoReturn:
    """Ends a worker whose job was ended by SIGTERM: taking the interpreter apart takes longer than all else, and who
    canceled the job waits for it. What the application has registered for its exit runs.
    """
    atexit._run_exitfuncs()
    flush_streams()
    os._exit(0)
